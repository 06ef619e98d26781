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

    @Test("without the setting, or with 0, there is no stream", arguments: [nil, "0", "many", "1000001"])
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

    @Test("the newest thousand events of a job are read, and at most a megabyte of them", arguments: [10, 4000])
    func ofJob(_ length: Int) async throws {
        let f = try await QueueFixture()
        let filler = String(repeating: "m", count: length)
        let entries = (1...1500).map { n in
            Command(
                "XADD", f.queue.keys.log, "\(n)-0", "id", "a", "data",
                #"{"v":1,"event":"duplicate","id":"a","at":\#(1000 + n),"meta":"\#(filler)"}"#)
        }
        for entry in entries { try await f.redis.send(entry) }
        let (found, hasMore) = try await f.queue.newestLoggedEvents(of: "a", since: 0)
        #expect(hasMore)
        #expect(try await !f.queue.newestLoggedEvents(of: "b", since: 0).hasMore)
        #expect(try await f.queue.newestLoggedEvents(of: "b", since: 0, searching: 500).hasMore)
        #expect(found.last?.entry == "1500-0" && found.map(\.time) == found.map(\.time).sorted())
        #expect(found.count == (length == 10 ? 1000 : (1 << 20) / found[0].text.utf8.count))
    }

    @Test("events that were not kept end the stream, so that no reader takes what follows for the next events")
    func offAndOn() async throws {
        let f = try await QueueFixture()
        let log = f.queue.keys.log
        try await f.queue.set(.eventStream, to: "1000")
        try await complete("a", f)
        let last = try #require(try await f.queue.loggedEvents(from: "-").last)
        try await f.redis.send(Command("XGROUP", "CREATE", log, "billing", "0"))
        // Without an event nothing is missing yet.
        try await f.queue.set(.eventStream, to: nil)
        _ = try await f.queue.tick(f.worker, runs: [])
        #expect(try await f.queue.loggedEvents(from: "-").map(\.id) == ["a"])
        try await complete("b", f)
        #expect(try await f.queue.loggedEvents(from: "-").isEmpty)
        #expect(try await f.queue.oldestLoggedEvent() == nil)
        // An empty stream is left alone: each entry, even if it is dropped at once, counts as one that groups lack.
        let state = Command("XINFO", "STREAM", log)
        let empty = try await f.redis.send(state)
        try await complete("later", f)
        #expect(try await f.redis.send(state) == empty)
        try await f.queue.set(.eventStream, to: "1000")
        try await complete("c", f)
        var follower = EventLogFollower(f.queue, after: last.entry)
        let page = try await follower.next(within: .zero, on: f.redis)
        #expect(page.events.map(\.id) == ["c"] && page.hasGap)
        #expect(try await !follower.next(within: .zero, on: f.redis).hasGap)
        let read = Command("XREADGROUP", "GROUP", "billing", "me", "STREAMS", log, ">")
        #expect(LoggedEvent.list(try await f.redis.send(read).array?.first?.array?.last).map(\.id) == ["c"])
        try await f.expectOrder()
    }

    private func complete(_ id: String, _ f: QueueFixture) async throws {
        try await f.push(#"{"url":"http://h/f","id":"\#(id)"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
    }

    @Test("a reader that waits gets the events that come") func waiting() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "300")
        let waiter = Redis(f.redis.url, name: "waiter")
        let follower = EventLogFollower(f.queue, after: "0")
        async let found = Self.next(of: follower, on: waiter)
        try await eventually("the reader to wait") {
            try await f.redis.send(Command("INFO", "clients")).infoFields["blocked_clients"] == "1"
        }
        try await complete("a", f)
        let (page, after) = try await found
        #expect(page.events.map(\.id) == ["a"] && !page.hasGap && page.isKeeping)
        var later = after
        let nothing = try await later.next(within: .zero, on: waiter)
        #expect(nothing.events.isEmpty && !nothing.hasGap && later.position == after.position)
    }

    private static func next(
        of follower: EventLogFollower, on waiter: Redis
    ) async throws -> (EventLogFollower.Page, EventLogFollower) {
        var follower = follower
        return (try await follower.next(within: .seconds(10), on: waiter), follower)
    }

    @Test("a reader says that events are missing when the last one that it has read was dropped")
    func trimmed() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "1000")
        for id in ["a", "b", "c"] { try await complete(id, f) }
        let entries = try await f.queue.loggedEvents(from: "-").map(\.entry)
        var follower = EventLogFollower(f.queue, after: entries[0])
        let whole = try await follower.next(within: .zero, on: f.redis)
        #expect(whole.events.map(\.id) == ["b", "c"] && !whole.hasGap)
        try await f.redis.send(Command("XTRIM", f.queue.keys.log, "MINID", entries[2]))
        var late = EventLogFollower(f.queue, after: entries[0])
        let rest = try await late.next(within: .zero, on: f.redis)
        #expect(rest.events.map(\.id) == ["c"] && rest.hasGap)
        #expect(try await late.next(within: .zero, on: f.redis).hasGap == false)
        // Since a time of which nothing is kept, and since one of which all is.
        let time = try #require(Int64(entries[2].prefix { $0 != "-" }))
        for (start, hasGap) in [(time - 1000, true), (time, false), (0, false)] {
            var reader = EventLogFollower(f.queue, after: String(start))
            let page = try await reader.next(within: .zero, on: f.redis)
            #expect(page.events.map(\.id) == ["c"] && page.hasGap == hasGap, "\(start)")
        }
    }

    @Test("a reader that has not read anything yet says whether events were dropped before its first one")
    func droppedBeforeFirst() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "3")
        func add(_ times: ClosedRange<Int>) async throws {
            for time in times {
                let event = #"{"event":"queued","id":"x","at":\#(time)}"#
                let add = Command("XADD", f.queue.keys.log, "MAXLEN", 3, "\(time)-0", "id", "x", "data", event)
                try await f.redis.send(add)
            }
        }
        // Both have seen that there is nothing, and one of them was stored and begins again.
        var (early, recent) = (EventLogFollower(f.queue, after: "0"), EventLogFollower(f.queue, after: "500"))
        for _ in 0..<2 {
            #expect(try await !early.next(within: .zero, on: f.redis).hasGap)
            #expect(try await !recent.next(within: .zero, on: f.redis).hasGap)
        }
        try await add(1000...1001)
        for var reader in [early, recent, EventLogFollower(f.queue, after: "0", isStored: true)] {
            let page = try await reader.next(within: .zero, on: f.redis)
            #expect(page.events.count == 2 && !page.hasGap, "\(reader.position)")
        }
        try await add(1002...1005)
        for var reader in [early, recent, EventLogFollower(f.queue, after: "0", isStored: true)] {
            let page = try await reader.next(within: .zero, on: f.redis)
            #expect(page.events.count == 3 && page.hasGap, "\(reader.position)")
            #expect(try await !reader.next(within: .zero, on: f.redis).hasGap)
        }
        // Whoever begins with what there is misses nothing.
        var new = EventLogFollower(f.queue, after: "0")
        #expect(try await !new.next(within: .zero, on: f.redis).hasGap)
    }

    @Test("the first event of a queue, for which a reader has waited since a time, is not taken for a gap")
    func firstEvent() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "1000")
        let (queue, waiter) = (f.queue, Redis(f.redis.url, name: "waiter"))
        let reading = Task {
            var follower = EventLogFollower(queue, after: "1000")
            return try await follower.next(within: .seconds(20), on: waiter)
        }
        try await eventually("the reader to wait") {
            try await f.redis.send(Command("INFO", "clients")).string?.contains("blocked_clients:1") == true
        }
        try await complete("a", f)
        let page = try await reading.value
        #expect(!page.events.isEmpty && !page.hasGap)
    }

    @Test("a reader of pages says that events are missing when they were dropped between two pages")
    func trimmedBetweenPages() async throws {
        let f = try await QueueFixture()
        for number in 1...1100 {
            let event = #"{"event":"queued","id":"x","at":\#(number)}"#
            try await f.redis.send(Command("XADD", f.queue.keys.log, "\(number)-0", "id", "x", "data", event))
        }
        var whole = EventLogReader(f.queue, from: "-")
        var entries: [String] = []
        while case let events = try await whole.next(), !events.isEmpty { entries += events.map(\.entry) }
        #expect(entries == (1...1100).map { "\($0)-0" } && !whole.hasGap)
        var late = EventLogReader(f.queue, from: "-")
        #expect(try await (1..<900).contains(late.next().count))
        try await f.redis.send(Command("XTRIM", f.queue.keys.log, "MINID", "900-0"))
        #expect(try await late.next().map(\.entry) == (900...1100).map { "\($0)-0" } && late.hasGap)
    }

    @Test("a reader whose last entries were lost in a failover goes on with those of a server whose clock is behind")
    func lostEntries() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.eventStream, to: "1000")
        func add(_ entry: String) async throws {
            let event = #"{"event":"queued","id":"x","at":1}"#
            try await f.redis.send(Command("XADD", f.queue.keys.log, entry, "id", "x", "data", event))
        }
        for entry in ["900000-0", "940000-0", "950000-0"] { try await add(entry) }
        var follower = EventLogFollower(f.queue, after: "950000-0")
        try await f.redis.send(Command("DEL", f.queue.keys.log))
        try await add("900000-0")
        let lost = try await follower.next(within: .zero, on: f.redis)
        #expect(lost.hasGap && lost.events.isEmpty)
        try await add("949000-0")
        let page = try await follower.next(within: .zero, on: f.redis)
        #expect(page.events.map(\.entry) == ["900000-0", "949000-0"])
        try await f.queue.set(.eventStream, to: nil)
        #expect(try await follower.next(within: .zero, on: f.redis).isKeeping == false)
    }
}
