import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

extension GroupTests {
    @Test("elements that start nothing take no turn of their group, unless they are all for 0.2 s") func dead()
        async throws
    {
        let q = try await ClockedQueue()
        try await push(q.f, "bolt", 0..<90)
        for _ in 0..<5 { _ = try #require(try await q.claim()) }
        let repeated = #"{"id":"acme-0","url":"http://h/","group":"acme","at":\#(try await q.now())}"#
        func pushAcme(_ number: Int, behind count: Int) async throws {
            try await push(
                q.f, (0..<count).map { $0 % 2 == 0 ? repeated : #"{"id":"x","group":"acme","url":7}"# })
            try await push(q.f, "acme", number..<number + 1)
        }
        /// A claim that has done as much as a call may do asks for another one.
        func begun(_ count: Int, eachCallLater: Int64) async throws -> [String] {
            var begun: [String] = []
            for call in 0..<400 where begun.count < count {
                try await q.set(Int64(call) * eachCallLater)
                if let claim = try await q.claim() { begun.append(claim.run.id) }
            }
            return begun
        }
        try await push(q.f, [repeated])
        try await pushAcme(1, behind: 300)
        #expect(try await begun(3, eachCallLater: 0) == ["acme-0", "acme-1", "bolt-5"])
        try await pushAcme(2, behind: 300)
        let late = try await begun(9, eachCallLater: 60)
        #expect(late.first == "bolt-6" && late.contains("acme-2"), "\(late)")
    }
}
