import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@Suite struct SettingTests {
    @Test("settings say how long ended jobs are kept, and an invalid number of seconds has no effect")
    func kept() async throws {
        let f = try await QueueFixture()
        func timeToLive(_ settlement: Settlement) async throws -> Int {
            try await f.push(#"{"url":"http://h/1","id":"1"}"#)
            try await f.settle(try #require(try await f.claim()), settlement)
            // By itself the hash expires 10 s after a tick would have deleted it.
            return (try await f.redis.send(Command("PTTL", f.queue.keys.job("1"))).int ?? 0) - 10_000
        }
        for (value, seconds) in [("3600", 3600), ("59", 86_400), ("x", 86_400), ("1e3", 86_400)] {
            try await f.queue.set(.keepCompleted, to: value)
            let left = try await timeToLive(QueueFixture.done)
            #expect(((seconds - 60) * 1000...seconds * 1000).contains(left), "\(value): \(left)")
        }
        #expect(try await Inspection(f.queue).run().map(\.subject) == [f.queue.keys.settings])
        try await f.queue.set(.keepFailed, to: "7200")
        let left = try await timeToLive(.failed(Failure(.io, "m"), retryable: true, received: 0))
        #expect((7_100_000...7_200_000).contains(left))
    }

    @Test("a shorter time removes older jobs, and the index entries of expired jobs")
    func changed() async throws {
        let f = try await QueueFixture()
        let ids = ["old", "expired", "new"]
        for id in ids {
            try await f.push(#"{"url":"http://h/1","id":"\#(id)"}"#)
            try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        }
        let now = try await f.queue.time()
        let index = f.queue.keys.index(.completed)
        try await f.redis.send(Command("ZADD", index, Int(now - 3_600_000), "old"))
        try await f.redis.send(Command("ZADD", index, Int(now - 1_800_000), "expired"))
        try await f.redis.send(Command("DEL", f.queue.keys.job("expired")))
        try await f.queue.set(.keepCompleted, to: "3000")
        try await f.tick()
        #expect(try await f.queue.ids(in: .completed, limit: 9) == ["new"])
        #expect(try await f.state("old") == nil)
        #expect(try await f.state("new") == .completed)
        try await f.expectOrder()
    }

    @Test("a quiet worker claims no job and finishes its own, and blocks neither others nor the queue")
    func quiet() async throws {
        let f = try await QueueFixture()
        for id in ["1", "2", "3"] { try await f.push(#"{"url":"http://h/1","id":"\#(id)"}"#) }
        let claim = try #require(try await f.claim())
        // As docs/operate/queues.md says it.
        try await f.redis.send(Command("HSET", f.queue.keys.settings, "quiet:w1", "1"))
        #expect(try await f.tick([claim]).gate == .quiet)
        // The element that its wait moved returns to its position.
        try await f.redis.send(Command("LMOVE", f.queue.keys.jobs, f.queue.keys.held("w1"), "RIGHT", "LEFT"))
        guard case .quiet = try await f.queue.claim(f.worker, token: Token.make()) else {
            Issue.record("the answer to a quiet worker is not `quiet`")
            return
        }
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.held("w1"))).int == 0)
        let reply = try await f.queue.settle(
            claim.run, as: QueueFixture.done, worker: f.worker, next: Token.make())
        #expect(reply.isOurs)
        guard case .quiet? = reply.next else {
            Issue.record("the answer to a quiet worker is not `quiet`")
            return
        }
        #expect(try await f.claim("w2")?.run.id == "2")
        #expect(try await Inspection(f.queue).run().isEmpty)
        try await f.queue.setQuiet("w1", false)
        #expect(try await f.tick().gate == .open)
        #expect(try await f.claim()?.run.id == "3")
    }

    @Test("a worker is quiet only until its process ends") func process() async throws {
        let f = try await QueueFixture()
        try await f.queue.setQuiet("w1", true)
        // The same process on a new connection.
        #expect(try await f.queue.register(f.worker, fields: [], known: []))
        #expect(try await f.tick().gate == .quiet)
        try await f.queue.leave(f.worker)
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.settings)).int == 0)
        try await f.queue.setQuiet("w2", true)
        #expect(
            try await f.queue.register(WorkerIdentity(name: "w2", store: "s", instance: "i"), fields: [], known: []))
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.settings)).int == 0)
    }

    @Test("a queue that was never used is unknown, and a queue without ticks has no workers")
    func unknown() async throws {
        let f = try await QueueFixture()
        let other = Queue(QueueName("other")!, redis: f.redis)
        #expect(try await other.stats().isKnown == false)
        try await f.redis.send(Command("LPUSH", other.keys.jobs, "x"))
        #expect(try await other.stats().isKnown)
        #expect(try await other.stats().workers == 0)
        #expect(try await f.queue.stats().workers == 1)
        #expect(try await f.queue.stats().isKnown)
    }
}
