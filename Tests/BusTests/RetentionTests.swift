import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// How long ended jobs are kept, and what is left of them.
@Suite struct RetentionTests {
    @Test(
        "completed and cancelled jobs are kept for a day, failed ones for a week",
        arguments: [
            (QueueFixture.done, 1), (.cancelled, 1), (.failed(Failure(.connect, "m"), retryable: true, received: 0), 7),
        ])
    func kept(_ settlement: Settlement, _ days: Int) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), settlement)
        let left = try await f.redis.send(Command("PTTL", f.queue.keys.job("1"))).int ?? 0
        // A tick deletes the job when its retention has ended. The hash expires by itself a little later.
        let all = days * 86_400_000 + 10_000
        #expect((all - 3_600_000...all).contains(left))
    }

    @Test("a cancel of an element that no worker has taken is kept for a day, so a paused queue does not forget it")
    func keptCancel() async throws {
        let f = try await QueueFixture()
        try await f.queue.setSetting("paused", to: "1")
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        let left = try await f.redis.send(Command("PTTL", f.queue.keys.job("1"))).int ?? 0
        #expect((82_800_000...86_400_000).contains(left))
        try await f.queue.setSetting("paused", to: nil)
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.job("1")?.state == .cancelled)
    }

    @Test("ended jobs expire with their index entries, and only documented keys are left")
    func retention() async throws {
        let f = try await QueueFixture { $0.keepCompleted = .seconds(4) }
        try await f.push(#"{"url":"http://h/1?secret=1","id":"1","reply_to":"me"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await f.queue.job("1")?.fields.values.contains { $0.contains("secret") } == false)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("me"))).int == 1)
        try await eventually {
            try await f.tick(); return try await f.redis.send(Command("ZCARD", f.queue.keys.index(.completed))).int == 0
        }
        let expected = ["epoch", "reply:me", "tick", "totals", "worker:w1", "workers"].map { f.queue.keys.prefix + $0 }
        try await eventually("only documented keys to be left") {
            let keys = try await f.redis.send(Command("KEYS", "*")).array?.compactMap(\.string) ?? []
            return keys.filter { !$0.hasPrefix(f.queue.keys.prefix + "history:") }.sorted() == expected
        }
    }

    @Test("the job of a schedule is kept as long as the schedule, because its next run must know its file")
    func scheduled() async throws {
        let clocked = try await ClockedQueue()
        let (f, queue) = (clocked.f, clocked.queue)
        try await queue.setSetting("keep_completed", to: "60")
        let definition = #"{"every":604800,"job":{"url":"http://h/f","path":"f"}}"#
        try await f.redis.send(Command("HSET", f.queue.keys.schedules, "films", definition))
        try await f.push(["films", "other"].map { #"{"url":"http://h/f","path":"f","id":"\#($0)"}"# })
        for _ in 0..<2 {
            let claim = try #require(try await clocked.claim())
            _ = try await queue.settle([RunEnd(claim.run, QueueFixture.done)], worker: f.worker, next: [])
        }
        // A fleet that is stopped for a day forgets it no more than one that ticks.
        try await queue.setSetting("keep_completed", to: "86400")
        try await clocked.set(3_600_000)
        try await queue.tick(f.worker, runs: [])
        let left = { (id: String) in try await f.redis.send(Command("PTTL", f.queue.keys.job(id))).int ?? 0 }
        #expect(try await left("films") > 20 * 86_400_000)
        #expect(try await left("other") < 86_400_000)
        try await queue.setSetting("keep_completed", to: "60")
        for minute in 61...63 {
            try await clocked.set(Int64(minute) * 61_000)
            while try await queue.tick(f.worker, runs: []).hasMoreWork {}
            #expect(try await f.redis.send(Command("HGET", f.queue.keys.job("films"), "file")).string != nil)
            #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.job("other"))).int == 0)
            #expect(try await f.redis.send(Command("ZCARD", f.queue.keys.index(.completed))).int == 1)
        }
        try await f.redis.send(Command("DEL", f.queue.keys.schedules))
        try await clocked.set(4_000_000)
        while try await queue.tick(f.worker, runs: []).hasMoreWork {}
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.job("films"))).int == 0)
    }

    @Test("a schedule shortens the life of no job, and lengthens that of no operation that waits for one")
    func otherLives() async throws {
        let clocked = try await ClockedQueue()
        let (f, queue) = (clocked.f, clocked.queue)
        try await queue.setSetting("keep_completed", to: "\(90 * 86_400)")
        for name in ["films", "series"] {
            let definition = #"{"every":604800,"job":{"url":"http://h/f"}}"#
            try await f.redis.send(Command("HSET", f.queue.keys.schedules, name, definition))
        }
        try await f.push([#"{"url":"http://h/f","id":"films"}"#])
        let claim = try #require(try await clocked.claim())
        _ = try await queue.settle([RunEnd(claim.run, QueueFixture.done)], worker: f.worker, next: [])
        try await f.redis.send(Command("HSET", f.queue.keys.want, "series", "paused"))
        for hour in 0...1 {
            try await clocked.set(Int64(hour) * 3_600_000)
            while try await queue.tick(f.worker, runs: []).hasMoreWork {}
        }
        let left = { (id: String) in try await f.redis.send(Command("PTTL", f.queue.keys.job(id))).int ?? 0 }
        #expect(try await left("films") > 89 * 86_400_000)
        let waiting = try await left("series")
        #expect(waiting > 0 && waiting <= 86_400_000)
    }

    @Test("no job is deleted before its completion was announced, however short its retention")
    func unannounced() async throws {
        let clocked = try await ClockedQueue()
        let (f, queue) = (clocked.f, clocked.queue)
        try await queue.setSetting("keep_completed", to: "60")
        try await f.push((0..<40).map { #"{"url":"http://h/\#($0)","id":"\#($0)","reply_to":"r"}"# })
        for _ in 0..<40 {
            let claim = try #require(try await clocked.claim())
            let end = RunEnd(claim.run, QueueFixture.done, awaitsReplicas: true)
            _ = try await queue.settle([end], worker: f.worker, next: [])
        }
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("r"))).int == 0)
        try await clocked.set(60_000)
        while try await queue.tick(f.worker, runs: []).hasMoreWork {}
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("r"))).int == 40)
        try await eventually {
            try await queue.tick(f.worker, runs: [])
            return try await f.redis.send(Command("ZCARD", f.queue.keys.index(.completed))).int == 0
        }
        // The event has made no hash anew.
        #expect(try await f.redis.send(Command("KEYS", "haul:{default}:job:*")).array?.isEmpty == true)
    }
}
