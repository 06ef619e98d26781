import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite("The stream of events") struct EventLogTests {
    private func events(_ f: QueueFixture) async throws -> [Event] {
        try await f.queue.loggedEvents(from: "-").compactMap { Event($0.text.utf8) }
    }

    @Test("each event but progress is in the stream, as it was published and in its order") func kept() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "1000")
        let subscription = f.queue.events().makeAsyncIterator()
        guard case .subscribed = await subscription.next(until: .now + .seconds(5)) else {
            Issue.record("no subscription")
            return
        }
        try await f.push(#"{"url":"http://h/f","id":"a","meta":{"order":7},"batch":{"name":"b","size":1}}"#)
        let claim = try #require(try await f.claim())
        var report = RunReport()
        report.events = [
            Announcement("progress") { $0.set("received", 1) }, Announcement("warning") { $0.set("message", "so") },
        ]
        _ = try await f.queue.tick(f.worker, runs: [(claim.run, report)])
        try await f.settle(claim, QueueFixture.done)
        try await f.push("{}")
        #expect(try await f.claim() == nil)
        var published: [String] = []
        while published.count < 5, case .message(_, let payload)? = await subscription.next(until: .now + .seconds(5)) {
            published.append(String(decoding: payload, as: UTF8.self))
        }
        let kept = try await f.queue.loggedEvents(from: "-")
        #expect(kept.map(\.text) == published.filter { !$0.contains(#""event":"progress""#) })
        #expect(kept.map(\.id) == ["a", "a", "batch/b", "unknown"])
        #expect(try await events(f).map(\.name) == ["warning", "completed", "batch_ended", "rejected"])
        try await f.expectOrder()
    }

    @Test("without the setting, or with 0, there is no stream", arguments: [nil, "0", "many"])
    func off(_ value: String?) async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: value)
        try await f.push(#"{"url":"http://h/f","id":"a"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.log)).int == 0)
    }

    @Test("the stream keeps about as many events as the setting says") func bounded() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "300")
        for number in 0..<1000 {
            try await f.push(#"{"url":"http://h/f","id":"j\#(number)"}"#)
            try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        }
        let count = try await f.redis.send(Command("XLEN", f.queue.keys.log)).int ?? 0
        #expect((300...400).contains(count))
        #expect(try await events(f).last?.id == "j999")
    }

    @Test("a stream of another type stops no job, and haul check reports it") func type() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "300")
        try await f.redis.send(Command("SET", f.queue.keys.log, "mine"))
        try await f.push(#"{"url":"http://h/f","id":"a"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await f.state("a") == .completed)
        let findings = try await Inspection(f.queue).run()
        #expect(findings.map(\.subject) == [f.queue.keys.log])
    }

    @Test("a reader that waits gets the events that come") func waiting() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "300")
        let waiter = Redis(f.redis.url, name: "waiter")
        async let found = f.queue.nextLoggedEvents(after: "$", block: .seconds(10), on: waiter)
        try await eventually("the reader to wait") {
            try await f.redis.send(Command("INFO", "clients")).infoFields["blocked_clients"] == "1"
        }
        try await f.push(#"{"url":"http://h/f","id":"a"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await found.map(\.id) == ["a"])
        #expect(try await f.queue.nextLoggedEvents(after: "$", block: .milliseconds(1), on: waiter).isEmpty)
    }
}
