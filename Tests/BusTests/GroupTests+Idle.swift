import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

extension GroupTests {
    @Test("elements that start nothing take no turn of their group") func dead() async throws {
        let f = try await QueueFixture()
        try await push(f, "bolt", 0..<90)
        for _ in 0..<5 { _ = try #require(try await f.claim()) }
        let at = try await f.queue.time()
        let repeated = #"{"id":"acme-0","url":"http://h/","group":"acme","at":\#(at)}"#
        try await push(f, [repeated])
        try await push(f, (0..<300).map { $0 % 2 == 0 ? repeated : #"{"id":"x","group":"acme","url":7}"# })
        try await push(f, "acme", 1..<2)
        var begun: [String] = []
        // A claim that has done as much as a call may do asks for another one.
        for _ in 0..<100 where begun.count < 3 { if let claim = try await f.claim() { begun.append(claim.run.id) } }
        #expect(begun == ["acme-0", "acme-1", "bolt-5"])
    }
}
