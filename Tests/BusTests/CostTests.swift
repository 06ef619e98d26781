import Glibc
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@Suite struct CostTests {
    @Test("one push wakes one of a thousand idle waiters") func waiters() async throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let f = try await QueueFixture()
        let url = try RedisURL(f.server.url)
        let count = 1000
        let workers = (0..<10).map { WorkerIdentity(name: "waiter-\($0)", store: "s") }
        for worker in workers { _ = try await f.queue.register(worker, fields: [], known: []) }
        let winners = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<count {
                group.addTask {
                    let waiter = Redis(url, name: "waiter-\(number)")
                    let worker = workers[number % 10]
                    // Longer than it takes until all of them wait.
                    let reply = try await f.queue.waitAndClaim(
                        worker, token: Token.make(), block: .seconds(120), on: waiter)
                    await waiter.close()
                    if case .job = reply { return true } else { return false }
                }
            }
            try await eventually("all of them to wait", within: .seconds(60)) {
                try await f.redis.send(Command("INFO", "clients")).string?.contains("blocked_clients:\(count)") == true
            }
            try await f.redis.send(Command("CONFIG", "RESETSTAT"))
            try await f.push(#"{"url":"http://h/1"}"#)
            let first = try await group.next()
            #expect(first == true)
            let stats = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
            let calls = stats.split(separator: "\r\n").filter { $0.hasPrefix("cmdstat_fcall") }.compactMap {
                $0.split(separator: ",").first?.split(separator: "=").last.flatMap { Int($0) }
            }
            // A waiter's claim is sent together with its wait, and runs when the wait ends.
            #expect(calls.reduce(0, +) <= 2, "\(calls)")
            try await eventually {
                try await f.redis.send(Command("INFO", "clients")).string?.contains("blocked_clients:\(count - 1)")
                    == true
            }
            // Ends the other waits.
            try await f.redis.send(Command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
            var winners = 1
            while let result = await group.nextResult() { if case .success(true) = result { winners += 1 } }
            return winners
        }
        #expect(winners == 1)
    }

    @Test(
        "a job on a busy worker costs one call besides its LPUSH, and less if several end together", arguments: [1, 16])
    func cost(together: Int) async throws {
        let f = try await QueueFixture()
        let jobs = 2000
        for index in 0..<jobs { try await f.push(#"{"url":"http://h/\#(index)"}"#) }
        var running: [Run] = []
        for _ in 0..<together { running.append(try #require(try await f.claim()).run) }
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        var settled = 0
        while !running.isEmpty {
            let reply = try await f.queue.settle(
                running.map { RunEnd($0, QueueFixture.done, isFresh: true) }, worker: f.worker,
                next: running.map { _ in Token.make() })
            settled += running.count
            running = reply.next.compactMap { if case .job(let claim) = $0 { claim.run } else { nil } }
        }
        #expect(settled == jobs)
        let text = try #require(try await f.redis.send(Command("INFO", "commandstats")).string)
        let line = try #require(text.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_fcall:") })
        let facts = Dictionary(
            uniqueKeysWithValues: line.dropFirst(14).split(separator: ",").map { pair in
                let parts = pair.split(separator: "=")
                return (String(parts[0]), Double(parts[1]) ?? 0)
            })
        print(
            "busy job, \(together) together: \(facts["calls"]! / Double(jobs)) scripts and \(facts["usec"]! / Double(jobs)) µs of Redis, besides its LPUSH"
        )
        #expect(facts["calls"]! <= Double(jobs / together + 1))
        try await f.expectOrder()
    }
}
