import Foundation
import Glibc
import HaulTestSupport
import Testing

/// The grace time is one budget for everything that a worker does between SIGTERM and its end.
@Suite struct GraceTests {
    struct Case: Sendable {
        let queues: Int
        /// Whether Redis has hung for so long that the worker's calls already fail.
        let isNoticed: Bool
    }

    @Test(
        "a worker ends within its grace time while Redis hangs, however many queues it serves",
        arguments: [
            Case(queues: 1, isNoticed: false), Case(queues: 4, isNoticed: false), Case(queues: 4, isNoticed: true),
        ])
    func hanging(_ given: Case) async throws {
        let fleet = try await ProcessFleet()
        let queues = ["default", "b", "c", "d"].prefix(given.queues)
        let worker = try ChildProcess(
            "haul", fleet.arguments("w", lease: 60) + ["--grace", "2"] + queues.flatMap { ["--queue", $0] })
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        fleet.server.signal(SIGSTOP)
        if given.isNoticed { try await fleet.wait(for: "Redis failed", from: worker) }
        let reported = ContinuousClock.now
        worker.kill(SIGTERM)
        let status = try await worker.wait(within: .seconds(30))
        let taken = ContinuousClock.now - reported
        fleet.server.signal(SIGCONT)
        // 143: the machine is too slow for a graceful end.
        #expect([0, 143].contains(status))
        // The grace time of 2 s, a second for the end itself, and two for a busy machine.
        #expect(taken < .seconds(5), "\(taken)")
        fleet.gate.open()
    }

    @Test("SIGTERM returns jobs to the queue long before the grace time ends") func quick() async throws {
        let fleet = try await ProcessFleet()
        let worker = try ChildProcess("haul", fleet.arguments("w", lease: 60) + ["--grace", "60"])
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        worker.kill(SIGTERM)
        #expect(try await worker.wait(within: .seconds(30)) == 0)
        #expect(try await fleet.field("state", of: "a") == "queued")
        fleet.gate.open()
    }
}
