import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Which reply lists get which events: docs/reference/events.md.
@Suite struct ReplyTests {
    /// The events on a reply list, oldest first.
    private func answers(_ f: QueueFixture, _ name: String) async throws -> [Event] {
        let list = try await f.redis.send(Command("LRANGE", f.queue.keys.reply(name), 0, -1))
        return (list.array ?? []).reversed().compactMap { $0.bytes.flatMap { Event($0) } }
    }

    private func names(_ f: QueueFixture, _ list: String) async throws -> [String] {
        try await answers(f, list).map(\.name)
    }

    private func push(_ f: QueueFixture, _ name: String, _ more: String = "") async throws {
        try await f.push(#"{"url":"http://h/1","id":"1","reply_to":"\#(name)"\#(more)}"#)
    }

    @Test(
        "each reply list that a push of an unfinished job names gets its end once",
        arguments: ["queued", "scheduled", "running", "paused"])
    func unfinished(_ state: String) async throws {
        let f = try await QueueFixture()
        try await push(f, "a", state == "scheduled" ? #","delay":1000"# : "")
        var claim = try await f.claim()
        switch state {
        case "queued": try await f.settle(try #require(claim), .released(why: "test"))
        case "paused":
            try await f.queue.request(.paused, of: ["1"])
            try await f.tick([try #require(claim)])
            try await f.settle(try #require(claim), .paused)
        default: break
        }
        #expect(try await f.state("1")?.rawValue == state)
        // If the job is queued, its ticket comes before these pushes.
        for name in ["b", "a", "b", "c"] { try await push(f, name) }
        if state == "scheduled" {
            #expect(try await f.claim() == nil)
            try await f.queue.request(.running, of: ["1"])
            try await f.tick()
        }
        if state != "running" { claim = try await f.claim() }
        // The other pushes are duplicates, because the job runs by now.
        #expect(try await f.claim() == nil)
        for name in ["a", "b", "c"] { #expect(try await names(f, name).isEmpty) }
        try await f.settle(try #require(claim), QueueFixture.done)
        for name in ["a", "b", "c"] { #expect(try await names(f, name) == ["completed"], "\(name)") }
        try await f.expectOrder()
    }

    @Test(
        "a push that a job's end has settled is answered with this end, at once and once",
        arguments: ["completed", "failed", "cancelled"])
    func ended(_ state: String) async throws {
        let f = try await QueueFixture()
        let at = try await f.queue.time()
        try await push(f, "a", #","meta":{"n":1},"at":\#(at)"#)
        let claim = try #require(try await f.claim())
        switch state {
        case "completed": try await f.settle(claim, .completed(QueueFixture.file, seconds: 1.5, unchanged: true))
        case "failed":
            try await f.settle(claim, .failed(Failure(.io, "a \"message\""), retryable: true, received: 2))
        default:
            try await f.queue.request(.cancelled, of: ["1"])
            try await f.tick([claim])
            try await f.settle(claim, .cancelled)
        }
        for name in ["b", "a", "b"] { try await push(f, name, #","at":\#(at)"#) }
        #expect(try await f.claim() == nil)
        let announced = try await answers(f, "a")
        let late = try await answers(f, "b")
        #expect(announced.map(\.name) == [state])
        #expect(late.map(\.name) == [state])
        // All members are the same, except those that differ with the time and the sender.
        for member in announced.first?.json.members ?? []
        where !["seq", "at", "received", "worker"].contains(member.name) {
            let found = late.first?[member.name]
            let isSame = member.value.double.map { $0 == found?.double } ?? (member.value == found)
            #expect(isSame, "\(member.name): \(member.raw)")
        }
        #expect(try #require(late.first?.position) > #require(announced.first?.position))
        try await f.expectOrder()
    }

    @Test("the end of a later run goes to the reply lists of its pushes, and to no earlier list") func anew()
        async throws
    {
        let f = try await QueueFixture()
        for name in ["a", "b"] {
            try await push(f, name)
            try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        }
        #expect(try await names(f, "a") == ["completed"])
        #expect(try await names(f, "b") == ["completed"])
        // A retry of a failed job pushes no name, so the name that waits gets both ends.
        try await push(f, "c")
        try await f.settle(
            try #require(try await f.claim()), .failed(Failure(.io, "m"), retryable: true, received: 0))
        try await f.queue.request(.running, of: ["1"])
        try await f.tick()
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await names(f, "c") == ["failed", "completed"])
        #expect(try await names(f, "b") == ["completed"])
    }

    @Test("a push behind a cancel is answered with the end of the next run, and not with the cancel")
    func behind() async throws {
        let f = try await QueueFixture()
        try await push(f, "a")
        let claim = try #require(try await f.claim())
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick([claim])
        for name in ["b", "c"] { try await push(f, name) }
        #expect(try await f.claim() == nil)
        try await f.settle(claim, .cancelled)
        #expect(try await names(f, "a") == ["cancelled"])
        for name in ["b", "c"] { #expect(try await names(f, name).isEmpty) }
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        for name in ["b", "c"] { #expect(try await names(f, name) == ["completed"], "\(name)") }
        #expect(try await names(f, "a") == ["cancelled"])
    }

    @Test("a push behind a pause is answered with the cancel that revokes the push") func takenBack() async throws {
        let f = try await QueueFixture()
        try await push(f, "a")
        let claim = try #require(try await f.claim())
        try await f.queue.request(.paused, of: ["1"])
        try await f.tick([claim])
        try await push(f, "b")
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick([claim])
        try await f.settle(claim, .cancelled)
        for name in ["a", "b"] { #expect(try await names(f, name) == ["cancelled"], "\(name)") }
        #expect(try await f.claim() == nil)
    }

    @Test("a repeat of a push that a removal stopped gets one `duplicate` event") func removed() async throws {
        let f = try await QueueFixture()
        let at = try await f.queue.time()
        try await push(f, "a", #","at":\#(at)"#)
        let claim = try #require(try await f.claim())
        try await f.queue.request(.removed, of: ["1"])
        try await f.tick([claim])
        try await f.settle(claim, .cancelled)
        for name in ["a", "b", "b"] { try await push(f, name, #","at":\#(at)"#) }
        #expect(try await f.claim() == nil)
        #expect(try await names(f, "a") == ["cancelled"])
        let late = try await answers(f, "b")
        #expect(late.map(\.name) == ["duplicate"])
        #expect(late.first?["state"]?.string == "removed")
        // The earlier names get nothing of the job that restarts.
        try await push(f, "c")
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await names(f, "c") == ["completed"])
        #expect(try await names(f, "b") == ["duplicate"])
    }

    @Test("a rejected element answers its `reply_to`, if that can be read") func rejected() async throws {
        let f = try await QueueFixture()
        for element in [
            #"{"url":"ftp://h/","reply_to":"me","meta":[1]}"#, #"{"url":"http://h/","id":"a b","reply_to":"me"}"#,
            #"{"url":"http://h/","at":1763712000,"id":"x","reply_to":"me"}"#, #"{"url":"ftp://h/","reply_to":"a b"}"#,
            #"{"url":"ftp://h/","reply_to":"me""#,
        ] {
            try await f.push(element)
            #expect(try await f.claim() == nil)
        }
        let announced = try await answers(f, "me")
        #expect(announced.map(\.name) == ["rejected", "rejected", "rejected"])
        #expect(announced.map(\.id) == ["unknown", "unknown", "x"])
        #expect(announced.first?["meta"] == .array([.number("1")]))
        #expect(announced.last?["reason"]?.string?.contains("not seconds") == true)
        #expect(try await f.redis.send(Command("KEYS", f.queue.keys.reply("*"))).array?.count == 1)
    }

    @Test("a push that no worker can read is answered as rejected, and earlier reply lists still wait")
    func unreadable() async throws {
        let f = try await QueueFixture()
        try await push(f, "a")
        let first = try #require(try await f.claim())
        try await f.queue.request(.paused, of: ["1"])
        try await f.tick([first])
        try await f.settle(first, .paused)
        try await push(f, "b")
        let claim = try #require(try await f.claim())
        try await push(f, "c")
        #expect(try await f.claim() == nil)
        try await f.settle(claim, .rejected(reason: "url: no", before: claim.before))
        for name in ["b", "c"] { #expect(try await names(f, name) == ["rejected"], "\(name)") }
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        #expect(try await names(f, "a") == ["cancelled"])
        for name in ["b", "c"] { #expect(try await names(f, name) == ["rejected"], "\(name)") }
    }

    @Test("a job answers the 64 reply lists that it keeps, and each further list gets `crowded` at once")
    func crowded() async throws {
        let f = try await QueueFixture()
        for n in 0..<66 { try await push(f, "n\(n)") }
        let claim = try #require(try await f.claim())
        while case .more = try await f.queue.claim(f.worker, token: Token.make()) {}
        try await f.settle(claim, QueueFixture.done)
        for n in 0..<64 { #expect(try await names(f, "n\(n)") == ["completed"], "\(n)") }
        for n in 64..<66 {
            let announced = try await answers(f, "n\(n)")
            #expect(announced.map(\.name) == ["duplicate"])
            #expect(announced.first?["reason"]?.string == "crowded")
        }
    }

    @Test("no reply list is answered while the job waits for replicas, and then all lists are") func withheld()
        async throws
    {
        let f = try await QueueFixture()
        let at = try await f.queue.time()
        try await push(f, "a", #","at":\#(at)"#)
        let claim = try #require(try await f.claim())
        _ = try await f.queue.settle(
            [RunEnd(claim.run, QueueFixture.done, awaitsReplicas: true)], worker: f.worker, next: [])
        try await push(f, "b", #","at":\#(at)"#)
        #expect(try await f.claim() == nil)
        #expect(try await names(f, "b").isEmpty)
        #expect(try await f.queue.announceReplicated(to: 0, within: .zero, on: f.redis) == .announced(1))
        for name in ["a", "b"] { #expect(try await names(f, name) == ["completed"], "\(name)") }
    }

    @Test("a `duplicate` event gives the reason and the timestamps") func why() async throws {
        let f = try await QueueFixture()
        let (now, events) = (try await f.queue.time(), EventLog(f.queue, keepsAll: true))
        try await eventually { events.isListening }
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(now)}"#)
        let claim = try #require(try await f.claim())
        try await f.push(#"{"id":"1"}"#)
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(now + 1)}"#)
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(now)}"#)
        #expect(try await f.claim() == nil)
        try await f.settle(claim, QueueFixture.done)
        // A producer whose clock is behind by an hour.
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(now - 3_600_000)}"#)
        #expect(try await f.claim() == nil)
        let ahead = now + 86_400_000
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(ahead)}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(ahead)}"#)
        #expect(try await f.claim() == nil)
        func announced() -> [Event] { events.all.filter { $0.name == "duplicate" } }
        try await eventually { announced().count == 5 }
        let settled = try #require(announced()[3]["since"]?.integer)
        #expect(settled >= now)
        #expect(announced().map { $0["reason"]?.string } == ["active", "active", "older", "settled", "repeated"])
        #expect(announced().map { $0["made"]?.integer } == [nil, now + 1, now, now - 3_600_000, ahead])
        #expect(announced().map { $0["since"]?.integer } == [nil, nil, now + 1, settled, ahead])
    }

    @Test("of pushes that wait behind a cancel, each reply list beyond the 64th gets `crowded` at once")
    func crowdedBehindCancel() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        for n in 0..<66 { try await f.push(#"{"url":"http://h/1","id":"1","reply_to":"n\#(n)"}"#) }
        while case .more = try await f.queue.claim(f.worker, token: Token.make()) {}
        for n in 64..<66 { #expect(try await answers(f, "n\(n)").first?["reason"]?.string == "crowded", "\(n)") }
        try await f.settle(claim, .cancelled)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        for n in 0..<64 { #expect(try await names(f, "n\(n)") == ["completed"], "\(n)") }
        try await f.expectOrder()
    }
}
