import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Sets of jobs that are counted together: docs/guides/batches.md.
@Suite("Batches of jobs") struct JobBatchTests {
    @Test("a batch counts its members, and ends when as many as its size have ended") func counted() async throws {
        let b = try await BatchFixture()
        let first = try await b.begin("1")
        #expect(try await b.counts() == [1, 0, 0, 0, 0])
        try await b.f.settle(first, QueueFixture.done)
        // The second member may come at any time.
        #expect(try await b.counts() == [0, 1, 0, 0, 0])
        #expect(try await b.reported().isEmpty)
        let second = try await b.begin("2")
        try await b.fail(second)
        #expect(try await b.counts() == [0, 1, 1, 0, 0])
        let reported = try await b.reported()
        #expect(reported.count == 1)
        let event = try #require(reported.first)
        #expect(
            event["event"]?.string == "batch_ended" && event["batch"]?.string == "b"
                && event["queue"]?.string == "default")
        #expect(
            ["round", "size", "completed", "failed", "cancelled", "rejected"].map { event[$0]?.integer } == [
                1, 2, 1, 1, 0, 0,
            ])
        let record = try #require(try await b.queue.batch("b"))
        #expect(
            record.finished == event["at"]?.integer && record.round == 1 && record.size == 2 && record.replyTo == ["r"])
        #expect(try await b.queue.batches(limit: 9) == [record])
        for key in [b.queue.keys.batch("b"), b.queue.keys.members("b")] {
            #expect(try await b.f.redis.send(Command("PTTL", key)).int ?? 0 > 86_400_000)
        }
        try await b.f.expectOrder()
    }

    @Test("a repeated settle, a repeated push and a late settle of a member count nothing") func once() async throws {
        let b = try await BatchFixture()
        let claim = try await b.begin("1", in: #"{"name":"b","size":1,"reply_to":"r"}"#, #","at":1763712000000"#)
        for _ in 0..<2 { try await b.f.settle(claim, QueueFixture.done) }
        for _ in 0..<2 { try await b.push("1", in: #"{"name":"b","size":1,"reply_to":"r"}"#, #","at":1763712000000"#) }
        #expect(try await b.f.claim() == nil)
        try await b.fail(claim)
        #expect(try await b.counts() == [0, 1, 0, 0, 0])
        #expect(try await b.rounds() == [1])
        try await b.f.expectOrder()
    }

    @Test("a member that is lost, requeued, retried or paused stays pending") func pending() async throws {
        let b = try await BatchFixture { $0.crashLimit = 1 }
        var claim = try await b.begin("1", in: #"{"name":"b","size":1,"reply_to":"r"}"#)
        try await b.f.settle(claim, .released(why: "test"))
        claim = try #require(try await b.f.claim("w2"))
        try await b.f.reportActive(claim)
        // A new process has the same name, so the run of the old process is lost.
        _ = try await b.queue.register(
            WorkerIdentity(name: "w2", store: "s", instance: "w2"), fields: [], known: [])
        #expect(try await b.counts() == [1, 0, 0, 0, 0])
        claim = try #require(try await b.f.claim())
        try await b.f.settle(claim, .retry(after: .zero, Failure(.io, "m")))
        try await b.f.tick()
        claim = try #require(try await b.f.claim())
        try await b.queue.request(.paused, of: ["1"])
        try await b.f.tick([claim])
        try await b.f.settle(claim, .paused)
        #expect(try await b.f.state("1") == .paused)
        #expect(try await b.counts() == [1, 0, 0, 0, 0])
        #expect(try await b.reported().isEmpty)
        try await b.queue.request(.cancelled, of: ["1"])
        try await b.f.tick()
        #expect(try await b.counts() == [0, 0, 0, 1, 0])
        #expect(try await b.rounds() == [1])
        try await b.f.expectOrder()
    }

    @Test("a retry makes the batch pending again, and its next end has the next round") func retried() async throws {
        let b = try await BatchFixture()
        try await b.f.settle(b.begin("1"), QueueFixture.done)
        try await b.fail(b.begin("2"))
        #expect(try await b.rounds() == [1])
        try await b.ask(.retried)
        #expect(try await b.f.state("2") == .queued)
        #expect(try await b.counts() == [1, 1, 0, 0, 0])
        #expect(try await b.queue.batch("b")?.finished == nil)
        for key in [b.queue.keys.batch("b"), b.queue.keys.members("b")] {
            #expect(try await b.f.redis.send(Command("PTTL", key)).int == -1)
        }
        try await b.f.settle(try #require(try await b.f.claim()), QueueFixture.done)
        #expect(try await b.counts() == [0, 2, 0, 0, 0])
        #expect(try await b.rounds() == [1, 2])
        let reported = try await b.reported()
        #expect(reported[0]["seq"]!.integer! < reported[1]["seq"]!.integer!)
        try await b.f.expectOrder()
    }

    @Test("a removed or expired member keeps its count, and is the same member if it is pushed again")
    func forgotten() async throws {
        let b = try await BatchFixture()
        try await b.f.settle(b.begin("1"), QueueFixture.done)
        try await b.queue.request(.removed, of: ["1"])
        try await b.f.tick()
        #expect(try await b.f.state("1") == nil)
        #expect(try await b.counts() == [0, 1, 0, 0, 0])
        // A repeat of the push that was removed.
        try await b.push("1", #","at":1763712000000"#)
        #expect(try await b.f.claim() == nil)
        #expect(try await b.counts() == [0, 1, 0, 0, 0])
        let again = try await b.begin("1")
        #expect(try await b.counts() == [1, 0, 0, 0, 0])
        try await b.f.settle(again, QueueFixture.done)
        try await b.f.redis.send(Command("DEL", b.queue.keys.job("1")))
        try await b.f.settle(b.begin("1"), QueueFixture.done)
        #expect(try await b.counts() == [0, 1, 0, 0, 0])
        #expect(try await b.reported().isEmpty)
    }

    @Test("an invalid element counts once as rejected, so that the batch ends") func rejected() async throws {
        let b = try await BatchFixture()
        for element in [
            #"{"url":"ftp://h/","id":"x","batch":{"name":"b","size":3,"reply_to":"r"}}"#,
            #"{"url":"ftp://h/","batch":"b"}"#,
        ] {
            for _ in 0..<2 { try await b.f.push(element) }
        }
        try await b.f.push(#"{"url":"http://h/1","batch":{"name":"b","size":0}}"#)
        try await b.f.push(#"{"url":"http://h/1","batch":"no name"}"#)
        #expect(try await b.f.claim() == nil)
        #expect(try await b.counts() == [0, 0, 0, 0, 2])
        let rejected = try await b.f.redis.send(Command("LRANGE", b.queue.keys.rejected, 0, 1)).array ?? []
        for entry in rejected { #expect(entry.string?.contains("batch: must be a name") == true) }
        // A valid push of the same id is a member like any other.
        let claim = try await b.begin("x", in: #""b""#)
        #expect(try await b.counts() == [1, 0, 0, 0, 1])
        // An invalid push of a member changes nothing.
        try await b.f.push(#"{"url":"ftp://h/","id":"x","batch":"b"}"#)
        #expect(try await b.f.claim() == nil)
        #expect(try await b.counts() == [1, 0, 0, 0, 1])
        try await b.f.settle(claim, QueueFixture.done)
        #expect(try await b.rounds().isEmpty)
        try await b.f.settle(b.begin("2", in: #""b""#), QueueFixture.done)
        #expect(try await b.counts() == [0, 2, 0, 0, 1])
        #expect(try await b.rounds() == [1])
        try await b.f.expectOrder()
    }

    @Test("a push that its worker cannot read leaves a known member as it was", arguments: [true, false])
    func unreadable(isKnown: Bool) async throws {
        let b = try await BatchFixture()
        if isKnown { try await b.fail(b.begin("1")) }
        let claim = try await b.begin("1", in: #""c""#)
        #expect(try await b.counts("c") == [1, 0, 0, 0, 0])
        try await b.f.settle(claim, .rejected(reason: "url: is invalid", before: claim.before))
        #expect(try await b.counts("c") == (isKnown ? [0, 0, 0, 0, 1] : [0, 0, 1, 0, 0]))
        #expect(try await b.counts() == (isKnown ? [0, 0, 1, 0, 0] : [0, 0, 0, 0, 0]))
        try await b.f.expectOrder()
    }

    @Test("a job may be in several batches, even if it runs or has ended when it is pushed for them")
    func several() async throws {
        let b = try await BatchFixture()
        let claim = try await b.begin("1", in: #""b""#, #","at":1763712000000"#)
        try await b.push("1", in: #"{"name":"c","size":1,"reply_to":"r"}"#)
        #expect(try await b.f.claim() == nil)
        #expect(try await b.counts("c") == [1, 0, 0, 0, 0])
        try await b.fail(claim)
        for name in ["b", "c"] { #expect(try await b.counts(name) == [0, 0, 1, 0, 0]) }
        #expect(try await b.rounds() == [1])
        // A repeat of a settled push joins its batch at once.
        try await b.push("1", in: #"{"name":"d","size":1,"reply_to":"s"}"#, #","at":1763712000000"#)
        #expect(try await b.f.claim() == nil)
        #expect(try await b.rounds("s") == [1])
        // With the retry all of these batches are pending.
        try await b.queue.request(.running, of: ["1"])
        try await b.f.tick()
        for name in ["b", "c", "d"] { #expect(try await b.counts(name) == [1, 0, 0, 0, 0]) }
        try await b.fail(try #require(try await b.f.claim()))
        // A push that restarts the job counts only in its own batches.
        try await b.f.settle(b.begin("1", in: #""e""#), QueueFixture.done)
        for name in ["b", "c", "d"] { #expect(try await b.counts(name) == [0, 0, 1, 0, 0]) }
        #expect(try await b.counts("e") == [0, 1, 0, 0, 0])
        #expect(try await b.rounds() == [1, 2])
        try await b.f.expectOrder()
    }

    @Test("a repeated push with a new `reply_to` is answered at once if its batch has ended")
    func answeredLate() async throws {
        let b = try await BatchFixture()
        let element = #"{"name":"b","size":1,"reply_to":"r"}"#
        try await b.f.settle(b.begin("1", in: element, #","at":1763712000000"#), QueueFixture.done)
        for _ in 0..<2 {
            try await b.push("1", in: element.replacing("\"r\"", with: "\"s\""), #","at":1763712000000"#)
            #expect(try await b.f.claim() == nil)
        }
        #expect(try await b.rounds() == [1])
        #expect(try await b.rounds("s") == [1])
    }

    @Test("a push that is kept behind an operation is pending in its batch until it is done", arguments: [false, true])
    func behind(isTakenBack: Bool) async throws {
        let b = try await BatchFixture()
        let claim = try await b.begin("1", in: #""b""#)
        try await b.queue.request(.cancelled, of: ["1"])
        try await b.f.tick([claim])
        try await b.push("1", in: #"{"name":"c","size":1,"reply_to":"r"}"#)
        #expect(try await b.f.claim() == nil)
        #expect(try await b.counts("c") == [1, 0, 0, 0, 0])
        if isTakenBack {
            try await b.queue.request(.cancelled, of: ["1"])
            try await b.f.tick([claim])
        }
        try await b.f.settle(claim, .cancelled)
        #expect(try await b.counts() == [0, 0, 0, 1, 0])
        if !isTakenBack {
            #expect(try await b.counts("c") == [1, 0, 0, 0, 0])
            #expect(try await b.reported().isEmpty)
            try await b.f.settle(try #require(try await b.f.claim()), QueueFixture.done)
        }
        #expect(try await b.counts("c") == (isTakenBack ? [0, 0, 0, 1, 0] : [0, 1, 0, 0, 0]))
        #expect(try await b.rounds() == [1])
        try await b.f.expectOrder()
    }

    @Test("a member that waits for replicas is pending until its completion is announced")
    func replicas() async throws {
        let b = try await BatchFixture()
        let claim = try await b.begin("1", in: #"{"name":"b","size":1,"reply_to":"r"}"#)
        _ = try await b.queue.settle(
            [RunEnd(claim.run, QueueFixture.done, RunReport(), awaitsReplicas: true)], worker: b.f.worker, next: [])
        #expect(try await b.f.state("1") == .completed)
        #expect(try await b.counts() == [1, 0, 0, 0, 0])
        let waiter = Redis(try RedisURL(b.f.server.url), name: "waiter")
        _ = try await b.queue.announceReplicated(to: 0, within: .milliseconds(10), on: waiter)
        await waiter.close()
        #expect(try await b.counts() == [0, 1, 0, 0, 0])
        #expect(try await b.rounds() == [1])
    }

    @Test("each reply list of a batch gets its end, however many pushes one call handles")
    func listsOfOneCall() async throws {
        let b = try await BatchFixture()
        let claim = try await b.begin("1", in: #"{"name":"b","size":1,"reply_to":"r0"}"#)
        for list in 1..<8 { try await b.push("1", in: #"{"name":"b","reply_to":"r\#(list)"}"#) }
        #expect(try await b.f.claim() == nil)
        try await b.f.settle(claim, QueueFixture.done)
        for list in 0..<8 { #expect(try await b.reported("r\(list)").count == 1, "r\(list)") }
    }

    @Test("keys of another type count nothing, and stop no job", arguments: ["batch:b", "members:b", "batches"])
    func strange(_ name: String) async throws {
        let b = try await BatchFixture()
        try await b.f.redis.send(Command("SET", b.queue.keys.prefix + name, "x"))
        try await b.f.settle(b.begin("1", in: #"{"name":"b","size":1,"reply_to":"r"}"#), QueueFixture.done)
        #expect(try await b.f.state("1") == .completed)
        try await b.ask(.cancelled)
        let findings = try await Inspection(b.queue).run()
        #expect(findings.contains { $0.subject == b.queue.keys.prefix + name }, "\(findings)")
    }
}
