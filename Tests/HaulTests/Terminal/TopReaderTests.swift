import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulTerminal
@testable import haul

/// The cost of `haul top` for Redis.
@Suite struct TopReaderTests {
    private static let key = "haul:{default}:"

    /// Writes this number of running jobs as a fleet would, at 1000 bytes per second each.
    static func fill(_ redis: Redis, _ count: Int) async throws {
        for start in stride(from: 0, to: count, by: 500) {
            let calls = (start..<min(count, start + 500)).flatMap { number in
                [
                    Call.command(
                        Command(
                            "HSET", Self.key + "job:j\(number)", "state", "running", "url", "http://h/\(number)",
                            "speed",
                            "1000", "received", "5", "total", "10", "started", "1")),
                    Call.command(Command("ZADD", Self.key + "leases", String(number), "j\(number)")),
                ]
            }
            for reply in try await redis.pipeline(calls) { _ = try reply.get() }
        }
    }

    @Test("a reading of 10,000 running jobs costs no more commands than one of 1,000, and no KEYS")
    func bounded() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "test")
        let queue = Queue(.default, redis: redis)
        var costs: [Int] = []
        for count in [1000, 10_000] {
            try await Self.fill(redis, count)
            let reader = TopReader(queue, patience: .seconds(60))
            var focus = TopReader.Focus()
            // The first reading reads all jobs.
            let data = try await reader.read(focus)
            #expect(data.rows.count == count && !data.isEstimated)
            #expect(data.bytesPerSecond == Double(count) * 1000)
            focus.visible = (0..<50).map { "j\($0)" }
            let before = try await server.statistic("total_commands_processed")
            for _ in 0..<4 { _ = try await reader.read(focus) }
            costs.append((try await server.statistic("total_commands_processed") - before) / 4)
        }
        #expect(costs[1] <= 700 && costs[1] <= costs[0] + 200, "\(costs)")
        let commands = try await server.cli("INFO", "commandstats")
        #expect(!commands.contains("cmdstat_keys:"))
    }

    @Test("new and ended jobs are noticed within a round over all running jobs") func rounds() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "test")
        try await Self.fill(redis, 1200)
        let reader = TopReader(Queue(.default, redis: redis), patience: .seconds(60))
        #expect(try await reader.read(TopReader.Focus()).rows.count == 1200)
        try await redis.send(Command("ZREM", Self.key + "leases", "j7", "j900"))
        try await redis.send(Command("HSET", Self.key + "job:j7", "state", "completed"))
        try await redis.send(Command("DEL", Self.key + "job:j900"))
        try await redis.send(Command("ZADD", Self.key + "leases", "1", "new"))
        try await redis.send(Command("HSET", Self.key + "job:new", "state", "running", "url", "http://h/new"))
        var ids: Set<String> = []
        for _ in 0..<9 { ids = Set(try await reader.read(TopReader.Focus()).rows.map(\.id)) }
        #expect(ids.count == 1199 && ids.contains("new") && !ids.contains("j7") && !ids.contains("j900"))
    }

    @Test("on a slow Redis the screen shows what was found so far, and then the rest") func slow() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "test")
        try await Self.fill(redis, 3000)
        let reader = TopReader(Queue(.default, redis: redis), patience: .zero)
        let first = try await reader.read(TopReader.Focus())
        #expect(first.counts[.running] == 3000 && first.isEstimated)
        #expect(first.rows.count >= TopReader.pageOfRunning && first.rows.count < 3000)
        var readings = 1
        while try await reader.read(TopReader.Focus()).rows.count < 3000, readings < 30 { readings += 1 }
        #expect(readings < 30)
    }

    @Test("the newest failures, the workers and other queues are read") func panels() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "test")
        let queue = Queue(.default, redis: redis)
        let now = try await queue.time()
        for (id, error) in [("a", "http_404"), ("b", "http_404"), ("c", "dns")] {
            try await redis.send(Command("HSET", Self.key + "job:" + id, "state", "failed", "error", error))
            try await redis.send(Command("ZADD", Self.key + "failed", String(now), id))
        }
        for (name, seen) in [("here", now), ("gone", now - 60_000)] {
            try await redis.send(Command("HSET", Self.key + "worker:" + name, "slots", "3", "seen", String(seen)))
            try await redis.send(Command("ZADD", Self.key + "workers", String(seen), name))
        }
        try await redis.send(Command("LPUSH", "haul:{other}:jobs", "{}"))
        let data = try await TopReader(queue, patience: .seconds(60)).read(TopReader.Focus())
        #expect(Set(data.failures.map(\.error)) == ["http_404", "dns"] && data.failures.count == 3)
        #expect(data.workers.map(\.name) == ["gone", "here"] && data.workers.map(\.isLost) == [true, false])
        #expect(data.lostCount == 1 && data.workerCount == 2)
        #expect(data.queues.map(\.name) == ["default", "other"] && data.queues[1].queued == 1)
        #expect(data.jobsPerSecond == 0.6)
    }
}
