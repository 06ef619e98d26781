import HaulClient
import HaulTestSupport
import Testing

@Suite struct ListTests {
    /// Writes hashes and an index as workers do, because thousands of real jobs would take minutes.
    private func fill(_ server: RedisServer, _ state: JobState, count: Int) async throws {
        let script = """
            local index = 'haul:{default}:' .. (ARGV[1] == 'running' and 'leases' or ARGV[1])
            for n = 1, tonumber(ARGV[2]) do
              local id = ('j%05d'):format(n)
              redis.call('HSET', 'haul:{default}:job:' .. id, 'state', ARGV[1], 'url', 'http://h' .. n % 3 .. ':80/x',
                'error', n % 2 == 0 and 'http_404' or 'connect', 'worker', 'w' .. n % 5, 'batch', 'b c' .. n % 7)
              -- Many jobs get there in the same millisecond.
              redis.call('ZADD', index, 1700000000000 + math.floor(n / 300), id)
            end
            return 'ok'
            """
        #expect(try await server.cli("EVAL", script, "0", state.rawValue, "\(count)") == "ok")
    }

    @Test(
        "a list has every job of its state once, whatever the size of its pages",
        arguments: [JobState.completed, .failed, .cancelled, .paused, .scheduled, .running], [7, 200])
    func pages(state: JobState, size: Int) async throws {
        let server = try await RedisServer()
        try await fill(server, state, count: 1000)
        let queue = try HaulQueue(redis: server.url)
        let jobs = try await collect(queue.list(state, pageSize: size))
        #expect(jobs.map(\.id) == (1...1000).map { "j" + String("0000\($0)".suffix(5)) })
        #expect(jobs.allSatisfy { $0.state == state })
        await queue.close()
    }

    @Test("jobs that leave or enter the state meanwhile let no other job be left out or repeated")
    func changes() async throws {
        let server = try await RedisServer()
        try await fill(server, .failed, count: 1000)
        let queue = try HaulQueue(redis: server.url)
        var ids: [String] = []
        for try await job in queue.list(.failed, pageSize: 50) {
            ids.append(job.id)
            // Two of three leave after they were read, among others of the same millisecond. One enters at the end.
            if ids.count % 3 != 0 { try await server.cli("ZREM", "haul:{default}:failed", job.id) }
            if ids.count == 100 { try await server.cli("ZADD", "haul:{default}:failed", "99999999999999", "late") }
        }
        #expect(ids == (1...1000).map { "j" + String("0000\($0)".suffix(5)) })
        await queue.close()
    }

    @Test("a filter lets pass what has all its values") func filters() async throws {
        let server = try await RedisServer()
        try await fill(server, .failed, count: 420)
        let queue = try HaulQueue(redis: server.url)
        func count(_ filter: JobList.Filter) async throws -> Int {
            try await collect(queue.list(.failed, where: filter, pageSize: 50)).count
        }
        #expect(try await count(.init(error: .http(404))) == 210)
        #expect(try await count(.init(host: "h1")) == 140)
        #expect(try await count(.init(worker: "w4")) == 84)
        #expect(try await count(.init(batch: "c3")) == 60)
        #expect(try await count(.init(batch: "b")) == 420)
        #expect(try await count(.init(error: .connect, host: "h0", worker: "w0", batch: "c0")) == 2)
        #expect(try await count(.init(host: "h")) == 0)
        #expect(try await count(.init(error: .http(40))) == 0)
        await queue.close()
    }

    @Test("a page asks for no more jobs than its size, and hashes only of jobs that the filter lets pass")
    func bounds() async throws {
        let server = try await RedisServer()
        try await fill(server, .failed, count: 400)
        let queue = try HaulQueue(redis: server.url)
        for try await job in queue.list(.failed, where: .init(error: .http(404)), pageSize: 10) {
            if job.id == "j00004" { break }
        }
        let calls = try await server.cli("INFO", "commandstats")
        #expect(calls.contains("cmdstat_zrange:calls=1,") && calls.contains("cmdstat_hmget:calls=10,"), "\(calls)")
        // Each of the five jobs has a hash for its fields and one for its offsets.
        #expect(calls.contains("cmdstat_hgetall:calls=10,"), "\(calls)")
        let state = try await collect(queue.list(.queued))
        #expect(state.isEmpty)
        await queue.close()
    }
}
