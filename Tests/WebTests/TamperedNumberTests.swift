import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// Any client that may write to Redis can write a number that no worker writes. It must end no process that reads it.
@Suite struct TamperedNumberTests {
    /// Makes a queue in which something of each kind is: jobs in each state, a response, an operation, a group, a batch, a
    /// schedule, limits, kept events, and counts of two minutes.
    private static func fill(_ fixture: WebFixture) async throws {
        let queue = fixture.queue
        try await queue.set(.eventStream, to: "1000")
        try await queue.set(.maxRunning, to: "5")
        let schedule = try Schedule(every: 60, cron: nil, zone: nil, job: try JSON(#"{"url":"http://h/s"}"#))
        try await queue.add(schedule, as: "nightly")
        let more = #""group":"a","batch":{"name":"night"},"deadline":100"#
        for id in ["done", "failed", "running", "queued"] {
            #expect(await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)",\#(more)}"#).status < 300)
        }
        #expect(await fixture.push(#"{"url":"http://h/later","id":"later","delay":600}"#).status < 300)
        var claims: [Claim] = []
        for _ in 0..<3 { claims.append(try #require(try await fixture.claim())) }
        try await fixture.settle(claims[0], WebFixture.done)
        try await fixture.settle(
            claims[1], .failed(Failure(.http(404), "m"), retryable: false, received: 7))
        try await queue.request(.paused, of: ["running"])
        try await fixture.tick([claims[2]])
        try await queue.request(.cancelled, of: ["later"])
        // A push that waits behind an element of the same id, which a worker has seen before.
        #expect(await fixture.push(#"{"url":"http://h/twice","id":"twice"}"#).status < 300)
        try await fixture.server.cli("HSET", queue.keys.job("twice"), "state", "queued", "url", "http://h/twice")
        await queue.record(ChangeRecord("pause", by: "me", via: .page))
        try await queue.setLimit(of: "h", to: #"{"connections":2,"starts":"3/min"}"#)
    }

    /// Replaces all numbers: those of hashes, and the scores.
    private static let tamper = """
        for _, key in ipairs(redis.call('KEYS', '*')) do
          local kind = redis.call('TYPE', key).ok
          if kind == 'hash' then
            local pairs = redis.call('HGETALL', key)
            for n = 1, #pairs, 2 do
              if tonumber(pairs[n + 1]) then redis.call('HSET', key, pairs[n], ARGV[1]) end
            end
          elseif kind == 'list' then
            for n, element in ipairs(redis.call('LRANGE', key, 0, -1)) do
              redis.call('LSET', key, n - 1, (element:gsub('":%d+', '":' .. ARGV[1])))
            end
          elseif kind == 'zset' then
            for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZADD', key, ARGV[1], member) end
          end
        end
        """

    @Test(
        "numbers that no worker writes end no process that shows, measures or checks a queue",
        arguments: [Int64.max, .min])
    func extremes(_ number: Int64) async throws {
        let fixture = try await WebFixture { $0.aria2 = .default }
        try await Self.fill(fixture)
        let hour = try await fixture.queue.time() / 3_600_000
        for name in ["0 completed", "1 completed", "0 failed", "1 failed"] {
            try await fixture.server.cli("HSET", fixture.queue.keys.history(hour: hour), name, "1")
        }
        for name in ["completed", "failed a", "failed b"] {
            try await fixture.server.cli("HSET", fixture.queue.keys.totals, name, "1")
        }
        _ = try await fixture.queue.register(
            WorkerIdentity(name: "w2", store: "s"), fields: [("slots", "1")], known: [])
        try await fixture.queue.redis.send(Command("EVAL", Self.tamper, 0, Int(number)))
        for path in [
            "/jobs?state=running&sort=speed", "/jobs?state=failed", "/jobs/failed", "/facets?state=running", "/workers",
            "/history?minutes=120&step=60", "/batches", "/schedules", "/settings", "", "/rejected", "/changes",
            "/jobs?state=queued", "/jobs?state=queued&sort=age",
        ] {
            let response = await fixture.get("/api/queues/default" + path)
            #expect(response.status == 200, "\(path): \(response.text.prefix(300))")
        }
        for path in ["/api/queues", "/metrics"] { #expect(await fixture.get(path).status == 200) }
        for method in ["getGlobalStat", "tellActive", "tellWaiting", "tellStopped"] {
            let call = #"{"jsonrpc":"2.0","id":1,"method":"aria2.\#(method)","params":[0,10]}"#
            #expect(await fixture.send("POST", "/jsonrpc", call).status == 200)
        }
        #expect(try await fixture.queue.changes(limit: 10).count == 1)
        for repairing in [false, true] { _ = try await Inspection(fixture.queue).run(repairing: repairing) }
        try await fixture.tick()
    }
}
