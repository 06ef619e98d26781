import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// What ticks count of the events of jobs.
@Suite struct HistoryTests {
    @Test("the next tick counts each event once, in the totals and in its minute") func events() async throws {
        let f = try await QueueFixture()
        for id in ["a", "b", "c"] { try await f.push(#"{"url":"http://h/x","id":"\#(id)"}"#) }
        try await f.push("rubbish")
        let a = try #require(try await f.claim())
        let b = try #require(try await f.claim())
        let c = try #require(try await f.claim())
        // The next claim meets the invalid element.
        #expect(try await f.claim() == nil)
        try await f.settle(a, QueueFixture.done)
        try await f.settle(b, .failed(Failure(.connect, "no"), retryable: true, received: 0))
        try await f.settle(c, .retry(after: .seconds(60), Failure(.connect, "no")))
        try await f.queue.request(.cancelled, of: ["c"])
        #expect(try await f.queue.totals().isEmpty)
        try await f.tick()
        try await f.tick()
        let totals = try await f.queue.totals()
        for name in ["completed", "failed", "retrying", "cancelled", "rejected"] {
            #expect(totals[name] == 1, "\(name)")
        }
        #expect(totals["progress"] == nil)
        #expect(totals["claimed"] == 3 && totals["failed connect"] == 1)
        let (minutes, now) = try await f.queue.history()
        #expect((1...2).contains(minutes.count))
        for name in ["completed", "failed", "retrying", "cancelled", "rejected"] {
            #expect(minutes.reduce(0) { $0 + $1[name] } == 1, "\(name)")
        }
        #expect(minutes.allSatisfy { $0.start % 60_000 == 0 && now - $0.start < 120_000 })
        try await f.expectOrder()
    }

    @Test("a worker's bytes are counted once, whatever it repeats and however often it registers")
    func bytes() async throws {
        let f = try await QueueFixture()
        func report(_ bytes: Int, by worker: WorkerIdentity) async throws {
            try await f.queue.tick(worker, fields: [("received", String(bytes))], runs: [])
        }
        try await report(100, by: f.worker)
        try await report(100, by: f.worker)
        try await report(250, by: f.worker)
        #expect(try await f.queue.totals()["received"] == 250)
        // The worker registers again after a lost connection, and continues.
        var again = f.worker
        again.session = 7
        _ = try await f.queue.register(again, fields: [], known: [])
        try await report(300, by: f.worker)
        #expect(try await f.queue.totals()["received"] == 300)
        // The worker reports the bytes since its last tick when it leaves. They count once, even if that is sent again.
        for _ in 1...2 { try await f.queue.leave(again, received: 310) }
        #expect(try await f.queue.totals()["received"] == 310)
        // Another process of the same name begins at 0.
        let next = WorkerIdentity(name: "w1", store: "s")
        _ = try await f.queue.register(next, fields: [], known: [])
        try await report(40, by: next)
        try await report(40, by: next)
        #expect(try await f.queue.totals()["received"] == 350)
        #expect(try await f.queue.history().minutes.reduce(0) { $0 + $1["received"] } == 350)
    }

    @Test("an hour of the history expires two days later, and keys of a wrong type stop nothing")
    func bounds() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/x","id":"a"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.tick()
        let hour = try #require(
            try await f.redis.send(Command("KEYS", f.queue.keys.prefix + "history:*")).array?.first?.string)
        let left = try await f.redis.send(Command("PTTL", hour)).int ?? 0
        #expect(left > 48 * 3_600_000 && left <= 49 * 3_600_000)
        try await f.redis.send(Command("DEL", hour, f.queue.keys.totals))
        try await f.redis.send(Command("SET", f.queue.keys.totals, "x"))
        try await f.push(#"{"url":"http://h/x","id":"b"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.tick()
        #expect(try await f.state("b") == .completed)
        #expect(try await f.queue.history().minutes.reduce(0) { $0 + $1["completed"] } == 1)
        let findings = try await Inspection(f.queue).run()
        #expect(findings.contains { $0.subject == f.queue.keys.totals }, "\(findings.map(\.subject))")
    }

    @Test("counting costs a job no command, and a tick at most two for each kind of event") func cost() async throws {
        let f = try await QueueFixture()
        func commands() async throws -> Int {
            let text = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
            let calls = text.matches(of: /cmdstat_(hincrby|pexpire):calls=(\d+)/).filter { $0.1 == "hincrby" }
            return calls.first.flatMap { Int($0.2) } ?? 0
        }
        for n in 0..<200 {
            try await f.push(#"{"url":"http://h/x","id":"j\#(n)"}"#)
            try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        }
        #expect(try await commands() == 0)
        try await f.tick()
        // `claimed` and `completed` of the totals, and `completed` of this minute.
        #expect(try await commands() == 3)
        #expect(try await f.queue.totals() == ["claimed": 200, "completed": 200])
        try await f.tick()
        #expect(try await commands() == 3)
    }

    @Test("jobs of lost workers that are requeued are counted") func reaped() async throws {
        let f = try await QueueFixture { $0.lease = .milliseconds(300) }
        try await f.push(#"{"url":"http://h/x","id":"a"}"#)
        _ = try #require(try await f.claim("lost"))
        try await eventually("the job to be reaped") {
            try await f.tick()
            return try await f.queue.totals()["lost"] == 1
        }
    }
}
