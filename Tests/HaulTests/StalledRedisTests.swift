import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Workers with the shortest lease, on a Redis that stalls for about as long.
@Suite struct StalledRedisTests {
    @Test("a live worker keeps its jobs while Redis stalls repeatedly for about a lease")
    func stalls() async throws {
        let fleet = try await ProcessFleet()
        let workers = try ["one", "two"].map {
            try ChildProcess("haul", fleet.arguments($0) + ["--slots", "6", "--connections-per-host", "6"])
        }
        for worker in workers { try await fleet.wait(for: "working", from: worker) }
        let ids = (0..<12).map { "j\($0)" }
        for id in ids { try await fleet.push(id) }
        for id in ids { try await fleet.waitForOffsets(id) }
        let tokens = try await tokens(of: ids, in: fleet)
        #expect(!tokens.contains(""))
        for milliseconds in [1300, 1750, 2200] {
            // The duration of the stall is what is tested.
            fleet.server.signal(SIGSTOP)
            try await Task.sleep(for: .milliseconds(milliseconds))
            fleet.server.signal(SIGCONT)
            // Both workers have had ticks since, and a lease has passed. So any takeover has happened by now.
            try await fleet.waitForTicks(12)
            #expect(try await self.tokens(of: ids, in: fleet) == tokens, "after a stall of \(milliseconds) ms")
        }
        fleet.gate.open()
        for id in ids { try await fleet.wait(id, for: "completed") }
        try await fleet.end(workers[0], workers[1])
        #expect(fleet.origin.requests.count == ids.count)
        for worker in workers { #expect(!worker.standardError.contains("fenced")) }
        for id in ids { #expect(fleet.root.holds(id, ProcessFleet.bytes)) }
    }

    /// The tokens of the current runs.
    private func tokens(of ids: [String], in fleet: ProcessFleet) async throws -> [String] {
        var result: [String] = []
        for id in ids { result.append(try await fleet.field("token", of: id)) }
        return result
    }
}
