import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus
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

    @Test("a queue's metrics show groups, steps, webhooks, schedules, and how far consumers of its events are behind")
    func features() async throws {
        let fleet = try await Fleet()
        let (queue, redis) = (fleet.queue, fleet.queue.redis)
        let other = WorkerIdentity(name: "other", store: "s")
        _ = try await queue.register(other, fields: [], known: [])
        let worker = try fleet.worker("w") { $0.exportsQueues = true }
        let before = try await Self.page(worker)
        try await Promtool.check(before)
        func line(_ name: String, _ value: Int, _ label: String = "") -> String {
            "haul_queue_\(name){queue=\"default\"\(label)} \(value)"
        }
        let unused = ["steps_total", "webhooks_total", "schedules", "schedule_overdue_seconds", "kept_events"]
        Self.expect(unused.map { line($0, 0) } + [line("groups", 0, #",waits_for="turn""#)], in: before)
        #expect(!before.contains("haul_queue_consumer_") && !before.contains("haul_queue_oldest_kept_event"))

        try await queue.set(.eventStream, to: "1000")
        try await queue.setLimit(of: "group:a", to: #"{"running":1}"#)
        let notify = #""notify":{"url":"https://h/","secret":"s"}"#
        for (number, group) in ["a", "a", "b"].enumerated() {
            try await fleet.push(#"{"url":"http://h/","id":"j\#(number)","group":"\#(group)",\#(notify)}"#)
        }
        var claims: [Claim] = []
        while case .job(let claim) = try await queue.claim(other, tokens: [Token.make()]).first { claims.append(claim) }
        #expect(claims.count == 2)
        let failed = Settlement.failed(Failure(.http(404), "m"), retryable: false, received: 0)
        let steps = NextSteps(ids: ["next"], elements: [#"{"url":"http://h/","id":"next"}"#])
        let run = try #require(claims.first { $0.run.id == "j2" }?.run)
        let end = RunEnd(run, failed, RunReport(), steps: steps)
        _ = try await queue.settle([end], worker: other, next: [])
        var tick = Tick(other, runs: claims.filter { $0.run != run }.map { ($0.run, RunReport()) })
        try await queue.perform(&tick)
        let now = try await queue.time()
        let due: [any RedisArgument] = [
            now - 90_000, "late", now + 90_000, "next", 0, "new", "0.17", "changed", "+inf", "never",
        ]
        try await redis.send(Command(arguments: ["ZADD", queue.keys.scheduleDue] + due))
        let event = #"{"event":"queued","id":"x","at":\#(now)}"#
        try await redis.send(Command("XADD", queue.keys.log, "*", "event", "queued", "id", "x", "data", event))
        try await redis.send(Command("XGROUP", "CREATE", queue.keys.log, "billing", 0))
        try await redis.send(
            Command("XREADGROUP", "GROUP", "billing", "c", "COUNT", 1, "STREAMS", queue.keys.log, ">"))
        let kept = try #require(try await redis.send(Command("XLEN", queue.keys.log)).int)
        let lag = line("consumer_lag", kept - 1, #",group="billing""#)
        try await eventually("a new reading") { try await Self.page(worker).contains(lag + "\n") }
        let text = try await Self.page(worker)
        try await Promtool.check(text)
        Self.expect(
            [
                line("groups", 1, #",waits_for="limit""#), line("steps_total", 1), line("webhooks_total", 1),
                line("schedules", 5), line("kept_events", kept), line("consumer_pending", 1, #",group="billing""#),
                "haul_queue_consumer_lag_ratio{queue=\"default\",group=\"billing\"} \(Double(kept - 1) / 1000)",
            ], in: text)
        #expect(text.contains("\nhaul_queue_oldest_kept_event_timestamp_seconds{queue=\"default\"} 1"))
        let overdue = text.split(separator: "\n").first { $0.hasPrefix("haul_queue_schedule_overdue_seconds{") }
        let seconds = try #require(overdue.flatMap { Double($0.split(separator: " ").last ?? "") })
        #expect((90...120).contains(seconds), "\(seconds)")
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
