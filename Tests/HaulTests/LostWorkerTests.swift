import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Workers that are killed, frozen and replaced.
@Suite struct LostWorkerTests {
    /// Redis still executes what a frozen worker has sent: its wait, of 5 s, claims the job that returns to the queue. The
    /// claim behind the wait then starts another run of the frozen worker, for one more lease. The worker learns of
    /// that run only if its connection outlives the freeze, and can log only a run of which it has learned.
    ///
    /// - Parameter isWaiting: Whether the wait may still be pending.
    @Test(
        "a worker that resumes after its leases logs each at most once, and does not touch the job",
        arguments: [true, false])
    func zombie(isWaiting: Bool) async throws {
        let fleet = try await ProcessFleet()
        let one = try fleet.worker("one")
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        one.kill(SIGSTOP)
        if !isWaiting {
            try await eventually("the frozen wait to end", within: .seconds(20), every: .milliseconds(50)) {
                let clients = try await fleet.server.cli("CLIENT", "LIST").split(separator: "\n")
                return !clients.contains { $0.contains(" name=haul-one-wait ") && $0.contains(" cmd=blmove ") }
            }
        }
        let two = try fleet.worker("two")
        var runs: Set<String> = []
        try await eventually("the job to run elsewhere", within: .seconds(30), every: .milliseconds(50)) {
            let fields = try await fleet.server.cli("HMGET", "haul:{default}:job:a", "worker", "token")
            if fields.hasPrefix("one\n") { runs.insert(fields) }
            return fields.hasPrefix("two\n")
        }
        #expect((1...(isWaiting ? 2 : 1)).contains(runs.count))
        func fenced() -> Int {
            one.standardError.components(separatedBy: "fenced: another worker has the job").count - 1
        }
        one.kill(SIGCONT)
        try await eventually("the frozen worker's run to be fenced", within: .seconds(60)) { fenced() >= 1 }
        fleet.gate.open()
        try await fleet.wait("a", for: "completed")
        try await fleet.end(one, two)
        #expect(fleet.root.names == ["a"])
        #expect(fleet.root.holds("a", ProcessFleet.bytes))
        #expect((1...runs.count).contains(fenced()), "\(one.standardError)")
    }

    @Test("a job that is lost with its worker repeatedly fails as crash_loop") func crashLoop() async throws {
        // No byte arrives, so no checkpoint shows progress.
        let fleet = try await ProcessFleet(held: 0)
        try await fleet.push("poison")
        var victim = try fleet.worker("victim-1")
        try await fleet.wait("poison", for: "running")
        // A co-located worker detects the dead worker before its lease ends. The crash counts only if the run was
        // recorded as begun.
        try await eventually("the run to be recorded as begun", within: .seconds(20), every: .milliseconds(50)) {
            try await !fleet.field("active_token", of: "poison").isEmpty
        }
        // A longer lease, which does not end on a slow machine.
        let successor = try fleet.worker("victim-2", lease: 6)
        victim.kill(SIGKILL)
        try await eventually("the successor to have the job", within: .seconds(30), every: .milliseconds(50)) {
            try await fleet.field("worker", of: "poison") == "victim-2"
        }
        let crashes = try await fleet.field("crashes", of: "poison")
        #expect(crashes == "1")
        try await fleet.server.cli("HSET", "haul:{default}:job:poison", "crashes", "5")
        victim = try fleet.worker("survivor")
        try await fleet.wait(for: "working", from: victim)
        successor.kill(SIGKILL)
        try await fleet.wait("poison", for: "failed")
        #expect(try await fleet.field("error", of: "poison") == "crash_loop")
        try await fleet.end(victim)
    }

    @Test("a worker that restarts under its name claims its jobs again, long before their leases end")
    func sameName() async throws {
        let fleet = try await ProcessFleet()
        let one = try fleet.worker("one", lease: 600)
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        one.kill(SIGKILL)
        _ = try await one.wait()
        let again = try fleet.worker("one", lease: 600)
        fleet.gate.open()
        try await fleet.wait("a", for: "completed")
        #expect(fleet.root.holds("a", ProcessFleet.bytes))
        #expect(try await fleet.field("attempt", of: "a") == "")
        #expect(fleet.origin.requests.last?.headers["range"] != nil)
        try await fleet.end(again)
    }

    @Test("a killed worker is detected on its machine long before its lease ends, and a crash is counted")
    func missed() async throws {
        let fleet = try await ProcessFleet()
        let one = try fleet.worker("one", lease: 600)
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        let two = try fleet.worker("two", lease: 600)
        try await fleet.wait(for: "working", from: two)
        one.kill(SIGKILL)
        // Its parent has not reaped it yet.
        try await eventually("the job to run elsewhere", within: .seconds(30), every: .milliseconds(50)) {
            try await fleet.field("worker", of: "a") == "two"
        }
        #expect(two.standardError.contains("a worker on this machine has died"))
        #expect(try await fleet.field("crashes", of: "a") == "1")
        fleet.gate.open()
        try await fleet.wait("a", for: "completed")
        #expect(fleet.root.holds("a", ProcessFleet.bytes))
        #expect(fleet.origin.requests.last?.headers["range"] != nil)
        _ = try await one.wait()
        try await fleet.end(two)
    }

    @Test("a worker that is only stopped does not count as dead") func stopped() async throws {
        let fleet = try await ProcessFleet()
        let one = try fleet.worker("one", lease: 600)
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        let two = try fleet.worker("two", lease: 600)
        try await fleet.wait(for: "working", from: two)
        let token = try await fleet.field("token", of: "a")
        one.kill(SIGSTOP)
        // The worker is silent for longer than a tick, and the co-located worker has checked it.
        try await fleet.waitForTicks(5)
        #expect(try await fleet.field("token", of: "a") == token)
        one.kill(SIGCONT)
        fleet.gate.open()
        try await fleet.wait("a", for: "completed")
        #expect(fleet.origin.requests.count == 1)
        try await fleet.end(one, two)
    }

    @Test("a rolling restart of the fleet costs no attempt, and no byte that was there")
    func rolling() async throws {
        let fleet = try await ProcessFleet()
        var workers = try ["a", "b", "c"].map { try fleet.worker($0) }
        let ids = (0..<6).map { "j\($0)" }
        for id in ids { try await fleet.push(id) }
        for id in ids {
            try await eventually("\(id) to reach the held offset", every: .milliseconds(50)) {
                try await fleet.server.cli("HGET", "haul:{default}:offsets:\(id)", "0") == "800000"
            }
        }
        for index in workers.indices {
            workers[index].kill(SIGTERM)
            #expect(try await workers[index].wait(within: .seconds(30)) == 0)
            workers[index] = try fleet.worker("next-\(index)")
        }
        fleet.gate.open()
        for id in ids { try await fleet.wait(id, for: "completed") }
        for worker in workers { try await fleet.end(worker) }
        for id in ids {
            #expect(fleet.root.holds(id, ProcessFleet.bytes))
            #expect(try await fleet.field("attempt", of: id) == "")
        }
        let starts = Set(fleet.origin.requests.map { $0.headers["range"] })
        #expect(starts == [nil, "bytes=800000-"])
        #expect(fleet.origin.requests.count { $0.headers["range"] == nil } == ids.count)
    }
}
