import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// A job whose deadline has passed is not handed to a worker, wherever it waited.
@Suite struct LateClaimTests {
    private func expectLate(_ f: QueueFixture, _ id: String) async throws {
        #expect(try await f.claim() == nil)
        let job = try #require(try await f.queue.job(id))
        #expect(job.state == .failed && job["error"] == "deadline" && job["deadline_at"] == nil, "\(job.fields)")
        #expect(try await f.redis.send(Command("ZCARD", f.queue.keys.deadlines)).int == 0)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("me"))).int == 1)
        try await f.expectOrder()
    }

    private func now(_ f: QueueFixture) async throws -> Int64 { try await f.queue.time() }

    @Test("a job that waited in the queue beyond its deadline fails", arguments: ["5", "0", "0.001"])
    func inLine(_ deadline: String) async throws {
        let f = try await QueueFixture()
        let at = try await now(f) - 60_000
        try await f.push(
            #"{"url":"http://h/1","id":"1","reply_to":"me","method":"POST","body":"x","deadline":\#(deadline),"at":\#(at)}"#
        )
        try await expectLate(f, "1")
    }

    @Test("a deadline of 0 passes at once, however soon the job is claimed") func zero() async throws {
        let f = try await QueueFixture()
        for n in 1...20 {
            try await f.push(#"{"url":"http://h/\#(n)","id":"\#(n)","deadline":0}"#)
            #expect(try await f.claim() == nil)
            #expect(try await f.state("\(n)") == .failed)
        }
    }

    @Test(
        "a job that is back in the queue or continued after its deadline fails",
        arguments: [JobState.queued, .paused, .scheduled])
    func again(_ state: JobState) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1","reply_to":"me","deadline":1000}"#)
        let claim = try #require(try await f.claim())
        switch state {
        case .queued: try await f.settle(claim, .released(why: "test"))
        case .scheduled: try await f.settle(claim, .retry(after: .seconds(900), Failure(.io, "m")))
        default:
            try await f.queue.request(.paused, of: ["1"])
            try await f.tick([claim])
            try await f.settle(claim, .paused)
        }
        let past = try await now(f) - 1
        try await f.redis.send(Command("HSET", f.queue.keys.job("1"), "deadline_at", past))
        try await f.redis.send(Command("ZADD", f.queue.keys.deadlines, past, "1"))
        if state != .queued { try await f.push(#"{"id":"1"}"#) }
        try await expectLate(f, "1")
    }

    @Test("a late push of a completed job fails as well, and a newer pause is applied before the deadline")
    func known() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await eventually { try await now(f) > f.queue.job("1")!.integer("settled_until")! + 1 }
        try await f.push(
            #"{"url":"http://h/1","id":"1","reply_to":"me","deadline":0,"at":\#(try await now(f))}"#)
        try await expectLate(f, "1")
        let at = try await now(f)
        try await f.queue.request(.paused, of: ["2"], at: at + 1)
        try await f.push(#"{"url":"http://h/2","id":"2","deadline":0,"at":\#(at)}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("2") == .paused)
        try await f.tick()
        #expect(try await f.state("2") == .failed)
        try await f.expectOrder()
    }
}
