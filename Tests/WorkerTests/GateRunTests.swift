import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulObjectStore
import HaulRedis
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulWorker

/// The gate within a run: its turn, its end, a new version of the file, new settings and the counts of its results.
@Suite(.timeLimit(.minutes(6))) struct GateRunTests {
    @Test("only so many commands run at once, and the other files wait in their order") func limit() async throws {
        let bench = try await GateBench()
        let go = bench.notes.file("go")
        let gate = bench.gate("until [ -e \(go) ]; do sleep 0.05; done")
        let change: (inout WorkerConfiguration) -> Void = {
            gate(&$0)
            $0.gateLimit = 2
        }
        try await bench.fleet.withWorker("w", slots: 8, change) {
            for number in 1...6 { try await bench.push("j\(number)", number % 2 == 0 ? 3_000_000 : 1000) }
            for number in 1...6 where number % 2 == 0 { try await bench.waitForFile("j\(number)", 3_000_000) }
            try await eventually("two commands") { bench.fleet.root.names.count == 6 && bench.runs.count == 2 }
            try await bench.waitForTicks(6)
            #expect(bench.runs.count == 2 && bench.fleet.root.names.allSatisfy { $0.hasPrefix(".haul-") })
            _ = FileManager.default.createFile(atPath: go, contents: nil)
            for number in 1...6 { try await bench.fleet.wait("j\(number)", for: .completed) }
        }
        #expect(bench.runs.count == 6)
    }

    @Test("a job that is at its gate, or waits for its turn, says so, and the queue names the gate as a bottleneck")
    func shown() async throws {
        let bench = try await GateBench()
        let go = bench.notes.file("go")
        let gate = bench.gate("until [ -e \(go) ]; do sleep 0.05; done")
        let change: (inout WorkerConfiguration) -> Void = {
            gate(&$0)
            $0.gateLimit = 1
        }
        try await bench.fleet.queue.set(.eventStream, to: "1000")
        try await bench.fleet.withWorker("w", slots: 8, change) {
            for id in ["a", "b"] { try await bench.push(id, 3_000_000) }
            var running: [JobRecord] = []
            try await eventually("both to wait for the gate") {
                running = try await [bench.fleet.queue.job("a"), bench.fleet.queue.job("b")].compactMap(\.self)
                return running.count == 2 && running.allSatisfy { $0.state == .running && $0["waiting"] == "gate" }
            }
            let load = QueueLoad(
                stats: try await bench.fleet.queue.stats(), workers: [], settings: [:], limits: [:], backoffs: [:],
                running: running.map(QueueLoad.RunningJob.init), now: 0)
            let found = try #require(load.bottlenecks.first { $0.cause == .gate })
            #expect(found.running == 2 && running.allSatisfy(found.slows))
            _ = FileManager.default.createFile(atPath: go, contents: nil)
            for id in ["a", "b"] {
                try await bench.fleet.wait(id, for: .completed)
                #expect(try await bench.fleet.queue.job(id)?["waiting"] == nil)
            }
        }
        let events = try await bench.fleet.queue.loggedEvents(of: "a", since: 0).compactMap { Event($0.text.utf8) }
        #expect(events.contains { $0.kind == .waiting && $0.why == "gate" })
    }

    @Test("a job that is paused or cancelled while the gate runs, or waits for its turn, ends at once")
    func stopped() async throws {
        let bench = try await GateBench()
        let go = bench.notes.file("go")
        let gate = bench.gate(
            "echo $$ >\(bench.notes.file("shell-"))$GATE_ID; until [ -e \(go) ]; do sleep 0.05; done")
        let change: (inout WorkerConfiguration) -> Void = {
            gate(&$0)
            $0.gateLimit = 2
        }
        try await bench.fleet.withWorker("w", slots: 8, change) {
            for id in ["paused", "cancelled"] { try await bench.push(id, 3_000_000) }
            try await eventually("two commands") { bench.runs.count == 2 }
            for id in ["paused-later", "cancelled-later"] { try await bench.push(id, 3_000_000) }
            // A file whose bytes have not all arrived would request its rest after the pause.
            for id in ["paused-later", "cancelled-later"] { try await bench.waitForFile(id, 3_000_000) }
            let begun = ContinuousClock.now
            for id in ["paused-later", "cancelled-later", "paused", "cancelled"] {
                try await bench.want(id, id.hasPrefix("paused") ? "paused" : "cancelled")
            }
            for id in ["paused", "paused-later"] { try await bench.fleet.wait(id, for: .paused) }
            for id in ["cancelled", "cancelled-later"] { try await bench.fleet.wait(id, for: .cancelled) }
            #expect(ContinuousClock.now - begun < .seconds(10))
            #expect(!bench.isAlive("shell-paused") && !bench.isAlive("shell-cancelled"))
            try await eventually("the cancelled files to go") { bench.fleet.root.names.count == 2 }
            _ = FileManager.default.createFile(atPath: go, contents: nil)
            for id in ["paused", "paused-later"] {
                try await bench.want(id, "running")
                try await bench.fleet.wait(id, for: .completed)
                #expect(bench.requests(id) == 1)
            }
        }
        #expect(bench.fleet.root.names == ["paused", "paused-later"])
        #expect(bench.runs.count == 4)
    }

    @Test("a worker that ends during the gate returns the job, and the next worker's gate sees the file") func ended()
        async throws
    {
        let bench = try await GateBench()
        try await bench.fleet.withWorker("one", bench.gate("echo $$ >\(bench.notes.file("shell")); sleep 600")) {
            try await bench.push("a", 3_000_000)
            try await eventually("the gate to run") { bench.runs == ["a"] }
        }
        #expect(!bench.isAlive("shell"))
        #expect(try await bench.fleet.state("a") == .queued && bench.fleet.root.names.count == 1)
        try await bench.fleet.withWorker("two", bench.gate("echo infected; exit 1")) {
            try await bench.fleet.wait("a", for: .failed)
        }
        #expect(bench.fleet.root.names.isEmpty && bench.requests("a") == 1 && bench.runs == ["a", "a"])
    }

    @Test("the gate sees a new version of a file, and none that has not changed; a refused version changes nothing")
    func versions() async throws {
        let fleet = try await Fleet()
        let version = Shared(1)
        let notes = TemporaryDirectory()
        let origin = try OriginServer { request in
            OriginReply.file(
                FileBytes(seed: UInt64(version.value), count: 5000), etag: "\"v\(version.value)\"", to: request)
        }
        let gate: (inout WorkerConfiguration) -> Void = {
            $0.gate = "echo seen >>\(notes.file("runs")); [ $(wc -l <\(notes.file("runs"))) -ne 2 ]"
        }
        func push(_ policy: String, _ members: String = "") async throws -> JobRecord {
            let events = try await fleet.queue.job("a")?["seq"]
            try await fleet.push(
                #"{"url":"\#(origin.url("/"))","id":"a","path":"a","if_exists":"\#(policy)"\#(members)}"#)
            try await eventually("the push to be done") {
                let job = try await fleet.queue.job("a")
                return job?["seq"] != events && job?.hasEnded == true
            }
            return try #require(try await fleet.queue.job("a"))
        }
        try await fleet.withWorker("w", gate) {
            let first = try await push("overwrite")
            let second = try await push("reuse")
            #expect(first.state == .completed && second["unchanged"] == "1")
            #expect(notes.contents("runs")?.count == 5)
            version.value = 2
            let third = try await push("overwrite")
            #expect(third["error"] == "gate_refused")
            #expect(fleet.root.holds("a", FileBytes(seed: 1, count: 5000)))
            // The refusal has shown that the first version is not fresh any more.
            let fourth = try await push("overwrite", #","fresh_for":3600"#)
            #expect(fourth.state == .completed && fourth["unchanged"] == nil)
        }
        #expect(fleet.root.holds("a", FileBytes(seed: 2, count: 5000)) && fleet.root.names == ["a"])
        #expect(notes.contents("runs")?.count == 15)
    }

    @Test("new settings of the gate hold for the next file, without a restart") func reloaded() async throws {
        let bench = try await GateBench()
        let gate = bench.gate("exit 1")
        var configuration: WorkerConfiguration?
        let worker = try bench.fleet.worker("w") {
            gate(&$0)
            configuration = $0
        }
        let running = Task { try await worker.run() }
        #expect(try await bench.download("a", 1000)["error"] == "gate_refused")
        var new = try #require(configuration)
        new.gate = nil
        let (taken, left) = try await worker.apply(new)
        #expect(taken == ["gate"] && left.isEmpty)
        #expect(try await bench.download("b", 1000).state == .completed)
        running.cancel()
        try await running.value
        #expect(bench.runs == ["a"])
    }

    @Test("the metrics count the runs of the gate by their results") func metrics() async throws {
        let bench = try await GateBench()
        let worker = try bench.fleet.worker(
            "w", bench.gate(#"case $GATE_ID in a*) ;; b*) exit 1 ;; *) exit 2 ;; esac"#))
        let running = Task { try await worker.run() }
        for id in ["a1", "a2", "b", "c"] { _ = try await bench.download(id, 1000, #","retries":0"#) }
        let text = try #require(await worker.page.respond(to: "/metrics")).text
        for (result, count) in [("accepted", 2), ("refused", 1), ("failed", 1)] {
            let line = #"haul_gate_duration_seconds_count{queue="default",result="\#(result)"} \#(count)"#
            #expect(text.contains(line), "\(text.split(separator: "\n").filter { $0.contains("gate") })")
        }
        running.cancel()
        try await running.value
    }
}
