import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// A producer's clock that is ahead delays nothing.
@Suite struct AheadTests {
    @Test(
        "`delay` and `deadline` count from when a push with an `at` ahead was claimed", arguments: [60_000, 3_600_000])
    func ahead(milliseconds: Int64) async throws {
        let c = try await ClockedQueue()
        let at = ClockedQueue.dawn + milliseconds
        try await c.f.push(#"{"url":"http://h/1","id":"now","at":\#(at),"delay":0}"#)
        #expect(try await c.claim()?.run.id == "now")
        try await c.f.push(#"{"url":"http://h/1","id":"later","at":\#(at),"delay":5,"deadline":30}"#)
        #expect(try await c.claim() == nil)
        let due = try await c.f.redis.send(Command("ZSCORE", c.queue.keys.scheduled, "later")).string
        #expect(due == "\(ClockedQueue.dawn + 5000)")
        #expect(try await c.queue.job("later")?["deadline_at"] == "\(ClockedQueue.dawn + 30_000)")
        try await c.set(30_001)
        try await c.queue.tick(c.f.worker, runs: [])
        #expect(try await c.queue.job("later")?["error"] == "deadline")
    }

    @Test(
        "a deadline that passes behind a lost worker does not deny that a request was sent", arguments: [true, false])
    func lost(wasSent: Bool) async throws {
        let c = try await ClockedQueue()
        try await c.f.push(#"{"kind":"request","url":"http://h/1","id":"1","method":"POST","deadline":30}"#)
        let claim = try #require(try await c.claim())
        var report = RunReport()
        if wasSent { report.fields.append(("sent", claim.run.token)) }
        try await c.queue.tick(c.f.worker, runs: [(claim.run, report)])
        try await c.queue.setSetting("paused", to: "1")
        let other = WorkerIdentity(name: "other", store: "s")
        _ = try await c.queue.register(other, fields: [], known: [])
        for second in 1...20 {
            try await c.set(Int64(second) * 1000)
            try await c.queue.tick(other, runs: [])
        }
        #expect(try await c.queue.job("1")?.state == .queued)
        try await c.set(30_001)
        try await c.queue.tick(other, runs: [])
        #expect(try await c.queue.job("1")?["error"] == (wasSent ? "outcome_unknown" : "deadline"))
    }

    @Test("a failed job that is retried has its deadline again, however it is retried", arguments: [true, false])
    func retried(byElement: Bool) async throws {
        let c = try await ClockedQueue()
        try await c.f.push(#"{"url":"http://h/1","id":"1","deadline":30}"#)
        let claim = try #require(try await c.claim())
        let failure = Settlement.failed(Failure(.http(404), "m"), retryable: true, received: 0)
        try await c.queue.settle(claim.run, as: failure, worker: c.f.worker)
        try await c.set(100_000)
        if byElement {
            try await c.f.push(#"{"id":"1"}"#)
        } else {
            try await c.f.redis.send(Command("HSET", c.queue.keys.want, "1", "running"))
            try await c.queue.tick(c.f.worker, runs: [])
        }
        #expect(try await c.claim()?.run.id == "1")
        #expect(try await c.queue.job("1")?["deadline_at"] == "\(ClockedQueue.dawn + 130_000)")
        let kept = try await c.f.redis.send(Command("ZSCORE", c.queue.keys[.deadlines], "1")).string
        #expect(kept == "\(ClockedQueue.dawn + 130_000)")
    }

    @Test("the latest `at` and the longest deadline make a time that Redis can read again") func longest() async throws
    {
        let f = try await QueueFixture()
        try await f.push(
            #"{"url":"http://h/1","id":"1","at":\#(JobField.timestamps.upperBound),"delay":10000000000,"deadline":10000000000}"#
        )
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.job("1")?["deadline_at"]?.count == 14)
        try await f.expectOrder()
    }
}
