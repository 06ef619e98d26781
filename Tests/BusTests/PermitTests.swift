import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// `max_running`: a free permit is taken at once, by one worker.
@Suite struct PermitTests {
    let f: QueueFixture

    init() async throws {
        f = try await QueueFixture()
        try await f.queue.setSetting("max_running", to: "1")
    }

    private func push(_ count: Int) async throws {
        for number in 1...count { try await f.push(#"{"url":"http://h/\#(number)","id":"\#(number)"}"#) }
    }

    /// Runs `body` while workers of one slot wait for permits. The stream has their claims.
    private func waiters(_ count: Int, _ body: (AsyncStream<Claim>) async throws -> Void) async throws {
        let url = try RedisURL(f.server.url)
        let (claims, claimed) = AsyncStream<Claim>.makeStream()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...count {
                let worker = WorkerIdentity(name: "waiting-\(number)", store: "s")
                _ = try await f.queue.register(worker, fields: [], known: [])
                group.addTask { [f] in
                    let waiter = Redis(url, name: "waiter-\(number)")
                    let reply = try? await f.queue.waitAndClaim(
                        worker, tokens: [Token.make()], block: .seconds(120), isFull: true, on: waiter)
                    await waiter.close()
                    if case .job(let claim)? = reply?.first { claimed.yield(claim) }
                }
            }
            try await blocked(count)
            try await f.redis.send(Command("CONFIG", "RESETSTAT"))
            try await body(claims)
            try await f.redis.send(Command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
            try await group.waitForAll()
        }
        try await f.expectOrder()
    }

    private func blocked(_ count: Int) async throws {
        try await eventually("\(count) workers to wait") {
            try await f.redis.send(Command("INFO", "clients")).string?.split(separator: "\r\n").contains(
                "blocked_clients:\(count)") == true
        }
    }

    /// Calls of functions since the statistics were reset.
    private func calls() async throws -> Int {
        let text = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
        let line = text.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_fcall:calls=") }
        return line.flatMap { Int($0.dropFirst(20).prefix { $0 != "," }) } ?? 0
    }

    @Test("a settle in a full queue takes the permit that it frees, and wakes no other worker") func taken()
        async throws
    {
        try await push(3)
        let first = try #require(try await f.claim())
        guard case .full = try await f.queue.claim(f.worker, token: Token.make()) else {
            return #expect(Bool(false), "it is full")
        }
        let reply = try await f.queue.settle(first.run, as: QueueFixture.done, worker: f.worker, next: Token.make())
        guard case .job(let second) = reply.next else { return #expect(Bool(false), "its place was free") }
        #expect(second.run.id == "2")
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.permits)).int == 0)
        try await f.expectOrder()
    }

    @Test("a permit that its worker leaves to others wakes one waiting worker", arguments: [true, false])
    func oneWakes(_ isReaped: Bool) async throws {
        try await push(3)
        let first = try #require(try await f.claim())
        try await waiters(20) { claims in
            if isReaped {
                try await f.redis.send(Command("ZADD", f.queue.keys.leases, 1, "1"))
                try await f.tick()
            } else {
                try await f.settle(first, QueueFixture.done)
            }
            var taken = claims.makeAsyncIterator()
            #expect(await taken.next()?.run.id == (isReaped ? "1" : "2"))
            try await blocked(19)
            // The call that freed the permit, and the claim of the woken worker.
            #expect(try await calls() == 2)
        }
    }

    @Test("a permit that is free while no job waits leaves one worker waiting at the queue")
    func emptyLine() async throws {
        try await push(1)
        let only = try #require(try await f.claim())
        try await waiters(3) { _ in
            try await f.settle(only, QueueFixture.done)
            // One worker has found that the queue is empty. The others are not woken for that.
            try await blocked(2)
            #expect(try await calls() == 2)
        }
    }

    @Test("the next tick notices a limit that was raised or removed by hand, and all permits are taken")
    func raised() async throws {
        try await push(9)
        _ = try #require(try await f.claim())
        try await waiters(6) { claims in
            var taken = claims.makeAsyncIterator()
            try await f.redis.send(Command("HSET", f.queue.keys.settings, "max_running", 4))
            try await f.tick()
            var ids: Set<String?> = []
            for _ in 2...4 { ids.insert(await taken.next()?.run.id) }
            #expect(ids == ["2", "3", "4"])
            try await blocked(3)
            try await f.redis.send(Command("HDEL", f.queue.keys.settings, "max_running"))
            for (left, id) in zip([2, 1, 0], ["5", "6", "7"]) {
                // Each worker that waits for a permit ticks like this.
                _ = try await f.queue.tick(f.worker, fields: [], runs: [], isHeld: true)
                #expect(await taken.next()?.run.id == id)
                try await blocked(left)
            }
        }
    }

    @Test("a paused queue wakes no worker, and a resumed queue wakes one") func paused() async throws {
        try await push(2)
        let first = try #require(try await f.claim())
        try await waiters(2) { claims in
            try await f.queue.setSetting("paused", to: "1")
            try await f.settle(first, QueueFixture.done)
            #expect(try await f.tick().gate == .paused)
            try await blocked(2)
            try await f.queue.setSetting("paused", to: nil)
            #expect(try await f.tick().gate == .open)
            var taken = claims.makeAsyncIterator()
            #expect(await taken.next()?.run.id == "2")
        }
    }

    @Test("a `permits` key of another type is replaced") func strange() async throws {
        try await push(2)
        let first = try #require(try await f.claim())
        try await f.redis.send(Command("SET", f.queue.keys.permits, "x"))
        try await f.settle(first, QueueFixture.done)
        try await f.tick()
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.permits)).int == 1)
        // A wake-up for which no worker waits expires.
        #expect(try await f.redis.send(Command("PTTL", f.queue.keys.permits)).int ?? 0 > 0)
        try await f.expectOrder()
    }
}
