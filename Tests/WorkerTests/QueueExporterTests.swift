import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Metrics of queues, compared with what is known to be in Redis.
@Suite struct QueueExporterTests {
    private static func page(_ worker: Worker) async throws -> String {
        try #require(await worker.page.respond(to: "/metrics")).text
    }

    private static func expect(_ lines: [String], in text: String, sourceLocation: SourceLocation = #_sourceLocation) {
        for line in lines { #expect(text.contains("\n\(line)\n"), "\(line)\n\(text)", sourceLocation: sourceLocation) }
    }

    private static func waited(_ text: String) -> Double? {
        text.split(separator: "\n").first { $0.hasPrefix("haul_queue_oldest_waiting_seconds{") }
            .flatMap { Double($0.split(separator: " ").last ?? "") }
    }

    @Test("a queue's metrics show what is in Redis, also the slots of other workers") func figures() async throws {
        let fleet = try await Fleet()
        let (queue, redis) = (fleet.queue, fleet.queue.redis)
        let other = WorkerIdentity(name: "other", store: "s")
        _ = try await queue.register(other, fields: [], known: [])
        let now = try await queue.time()
        for (number, pushed) in [(1, now - 90_000), (2, now - 50_000), (3, now)] {
            try await fleet.push(#"{"url":"http://h/","id":"j\#(number)","at":\#(pushed)}"#)
        }
        // The oldest job runs. So the next one has waited longest.
        _ = try await queue.claim(other, tokens: [Token.make()])
        try await fleet.push(#"{"url":"http://h/","id":"last"}"#)
        try await redis.send(Command("HSET", queue.keys.settings, "max_running", "9", "paused", "1"))
        var tick = Tick(other, runs: [], fields: [("slots", "4"), ("running", "1")])
        try await queue.perform(&tick)
        // A worker that was not seen lately, and a worker whose hash holds nonsense.
        try await redis.send(Command("ZADD", queue.keys.workers, 1, "lost", now, "strange"))
        try await redis.send(Command("HSET", queue.keys.worker("lost"), "seen", "1", "slots", "64", "running", "64"))
        try await redis.send(
            Command("HSET", queue.keys.worker("strange"), "seen", now + 60_000, "slots", "unlimited", "running", "-3"))

        let worker = try fleet.worker("w") { $0.exportsQueues = true }
        let text = try await Self.page(worker)
        try await Promtool.check(text)
        Self.expect(
            [
                "haul_queue_up{queue=\"default\"} 1", "haul_queue_jobs{queue=\"default\",state=\"queued\"} 3",
                "haul_queue_jobs{queue=\"default\",state=\"running\"} 1",
                "haul_queue_jobs{queue=\"default\",state=\"failed\"} 0", "haul_queue_rejected{queue=\"default\"} 0",
                "haul_queue_workers{queue=\"default\"} 2", "haul_queue_slots{queue=\"default\"} 4",
                "haul_queue_slots_taken{queue=\"default\"} 1", "haul_queue_paused{queue=\"default\"} 1",
                "haul_queue_max_running{queue=\"default\"} 9",
            ], in: text)
        let waited = try #require(Self.waited(text))
        #expect((50...80).contains(waited), "\(waited)")
        #expect(text.contains("\nhaul_queue_last_tick_timestamp_seconds{queue=\"default\"} 1"))

        // A later page shows the change. Many pages at the same time cost Redis one read.
        try await redis.send(Command("DEL", queue.keys.jobs))
        try await redis.send(Command("HDEL", queue.keys.settings, "max_running", "paused"))
        try await eventually { try await Self.waited(Self.page(worker)) == 0 }
        let before = try await fleet.server.statistic("total_commands_processed")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<50 { group.addTask { _ = try await Self.page(worker) } }
            try await group.waitForAll()
        }
        #expect(try await fleet.server.statistic("total_commands_processed") - before < 200)
        let later = try await Self.page(worker)
        Self.expect(["haul_queue_paused{queue=\"default\"} 0"], in: later)
        #expect(!later.contains("haul_queue_max_running{"))
    }

    @Test("a queue whose Redis does not answer is shown as down, without its other metrics") func down() async throws {
        let fleet = try await Fleet()
        let lost = try fleet.worker("w", url: "unix:///no/such/socket") { $0.exportsQueues = true }
        let text = try await Self.page(lost)
        Self.expect(["haul_queue_up{queue=\"default\"} 0"], in: text)
        #expect(!text.contains("haul_queue_jobs"))
        #expect(text.contains("haul_build_info"))
    }

    @Test("a worker that is not configured to export queues shows no metrics of queues") func silent() async throws {
        let fleet = try await Fleet()
        #expect(try await !Self.page(try fleet.worker("w")).contains("haul_queue_"))
    }
}
