import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Jobs that wait for a retry, a disk, a store or a deadline.
@Suite struct ScheduledJobTests {
    @Test("a parked job says in its hash what it waits for", arguments: ["disk", "store"])
    func parked(_ reason: String) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), .parked(after: .seconds(5), reason: reason))
        let record = try #require(try await f.queue.job("1"))
        #expect(record.state == .scheduled && record["waiting"] == reason)
    }

    @Test("a retry is promoted when it is due, exactly once") func due() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(
            try #require(try await f.claim()), .retry(after: .milliseconds(1500), Failure(.connect, "m")))
        try await f.tick()
        #expect(try await f.state("1") == .scheduled)
        try await eventually {
            try await f.tick(); return try await f.state("1") == .queued
        }
        #expect(try await f.claim()?.attempt == 1)
        #expect(try await f.claim() == nil)
        try await f.expectOrder()
    }

    @Test("an attempt that made progress is retried, and resets the count of failed attempts")
    func retryAfterProgress() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let failure = Failure(.connect, "m")
        try await f.settle(try #require(try await f.claim()), .retry(after: .zero, failure))
        func queued() async throws -> Bool {
            try await f.tick()
            return try await f.state("1") == .queued
        }
        try await eventually { try await queued() }
        let second = try #require(try await f.claim())
        #expect(second.attempt == 1)
        try await f.settle(second, .retryAfterProgress(after: .zero, failure))
        #expect(try await f.queue.job("1")?["error"] == "connect")
        try await eventually { try await queued() }
        #expect(try await f.claim()?.attempt == 0)
        try await f.expectOrder()
    }

    @Test("a deadline ends a job that waits") func deadline() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1","delay":1000,"deadline":0.2}"#)
        #expect(try await f.claim() == nil)
        try await eventually {
            try await f.tick(); return try await f.state("1") == .failed
        }
        #expect(try await f.queue.job("1")?["error"] == "deadline")
        try await f.expectOrder()
    }
}
