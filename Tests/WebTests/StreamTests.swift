import Glibc
import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// Server-sent events, over real sockets.
@Suite struct StreamTests {
    func serve(_ fixture: WebFixture) async throws -> (HTTPServer, ListenAddress) {
        let server = HTTPServer { await fixture.web.decide($0) }
        return (server, try await server.listen(on: ListenAddress("127.0.0.1:0")!))
    }

    func open(_ target: String, on address: ListenAddress) async throws -> RawClient {
        let client = try RawClient(address)
        await client.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return client
    }

    @Test("a change of a watched resource is sent") func resources() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let client = try await open(
            "/api/live?watch=queues/default&watch=queues/default/jobs%3Fstate%3Dqueued&watch=queues/default/jobs/a&events=default/a",
            on: address)
        let first = await client.read(until: "subscribed")
        #expect(
            first.contains("text/event-stream")
                && first.contains(#""watch":"queues/default/jobs/a","error":"not_found""#))
        _ = await fixture.push(#"{"url":"http://h/a","id":"a"}"#)
        #expect(await client.read(until: #""id":"a""#).contains("event: change"))
        _ = try await fixture.claim()
        #expect(await client.read(until: #""state":"running""#).contains("queues/default/jobs/a"))
        await server.stop()
    }

    @Test("events are sent as they are published") func events() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let one = try await open("/api/queues/default/events?id=a", on: address)
        let all = try await open("/api/queues/default/events", on: address)
        for client in [one, all] { _ = await client.read(until: "subscribed") }
        for id in ["b", "a"] {
            _ = await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#)
            let claim = try #require(try await fixture.claim())
            try await fixture.settle(claim, WebFixture.done)
        }
        let reported = await one.read(until: #""event":"completed""#)
        #expect(reported.contains(#""id":"a""#) && !reported.contains(#""id":"b""#))
        #expect(await all.read(until: #""id":"a""#).contains(#""id":"b""#))
        await server.stop()
    }

    @Test("a client that comes back gets the kept events that it missed, and a gap instead of those that were not kept")
    func lastEvent() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        func complete(_ id: String) async throws {
            _ = await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#)
            try await fixture.settle(try #require(try await fixture.claim()), WebFixture.done)
        }
        func comeBack(_ target: String, _ last: String) async throws -> RawClient {
            let client = try RawClient(address)
            await client.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: \(last)\r\n\r\n")
            return client
        }
        let events = "/api/queues/default/events"
        // Nothing was kept.
        _ = await (try await comeBack(events, "1")).read(until: "event: gap")
        try await fixture.queue.set(.eventStream, to: "1000")
        let first = try await open(events, on: address)
        _ = await first.read(until: "subscribed")
        try await complete("a")
        let text = await first.read(until: "\n\n")
        let last = try #require(text.firstMatch(of: /id: (\d+)\n/)).1
        try await complete("b")
        try await complete("c")
        let back = try await comeBack(events, String(last))
        let missed = await back.read(until: #""id":"c""#)
        #expect(missed.contains(#""id":"b""#) && !missed.contains("event: gap"))
        // It goes on with what comes.
        try await complete("d")
        _ = await back.read(until: #""id":"d""#)
        let one = try await comeBack(events + "?id=c", String(last))
        let own = await one.read(until: #""id":"c""#)
        #expect(!own.contains(#""id":"b""#))
        // The page of a job shows what was kept of it.
        let kept = await fixture.get("/api/queues/default/jobs/b/events").json?["events"]?.array
        #expect(kept?.map { $0["event"]?.string } == ["completed"] && kept?.first?["id"]?.string == "b")
        #expect(await (try await comeBack(events, "nonsense")).read(until: "Last-Event-ID").contains("400"))
        await server.stop()
    }

    @Test("a client that knows the oldest kept event misses nothing, although its entry has a later time")
    func lateEntry() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let event = #"{"v":1,"event":"completed","id":"a","queue":"default","at":5000}"#
        try await fixture.server.cli(
            "XADD", "haul:{default}:log", "5001-0", "event", "completed", "id", "a", "data", event)
        // A failover has lost the event of 5002, which the client has.
        for (last, isWhole) in [(5000, true), (4999, false), (5002, false)] {
            let client = try RawClient(address)
            await client.send(
                "GET /api/queues/default/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: \(last)\r\n\r\n")
            let text = await client.read(until: "subscribed")
            #expect(text.contains(#""id":"a""#) == (last <= 5001) && text.contains("event: gap") != isWhole, "\(last)")
        }
        // Events that came after the failover do not hide the loss.
        let later = #"{"v":1,"event":"completed","id":"b","queue":"default","at":6000}"#
        try await fixture.server.cli(
            "XADD", "haul:{default}:log", "6000-0", "event", "completed", "id", "b", "data", later)
        let client = try RawClient(address)
        await client.send("GET /api/queues/default/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 5002\r\n\r\n")
        let text = await client.read(until: "subscribed")
        #expect(text.contains(#""id":"b""#) && text.contains("event: gap"), "\(text)")
        await server.stop()
    }

    @Test("a client that comes back to a stream that cannot be read gets a gap, and then what comes")
    func unreadableLog() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        try await fixture.server.cli("SET", "haul:{default}:log", "mine")
        let client = try RawClient(address)
        await client.send("GET /api/queues/default/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1\r\n\r\n")
        #expect(await client.read(until: "event: subscribed").contains("event: gap"))
        _ = await fixture.push(#"{"url":"http://h/a","id":"a"}"#)
        try await fixture.settle(try #require(try await fixture.claim()), WebFixture.done)
        #expect(await client.read(until: #""id":"a""#).contains("completed"))
        await server.stop()
    }

    @Test("an event that no stream keeps has no number, so that no client comes back with it")
    func numbers() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let client = try await open("/api/queues/default/events", on: address)
        _ = await client.read(until: "subscribed")
        for event in ["progress", "completed"] {
            let text = #"{"v":1,"event":"\#(event)","id":"a","queue":"default","at":5000}"#
            try await fixture.server.cli("PUBLISH", "haul:{default}:events:a", text)
        }
        let text = await client.read(until: "completed")
        #expect(text.contains("progress") && text.ranges(of: "id: 5000").count == 1, "\(text)")
        await server.stop()
    }

    @Test("an event that is published after a client has come back, and before it listens, is not missed")
    func eventBeforeSubscription() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        func keep(_ id: String, at time: Int) async throws {
            let event = #"{"v":1,"event":"completed","id":"\#(id)","queue":"default","at":\#(time)}"#
            try await fixture.server.cli(
                "XADD", "haul:{default}:log", "\(time)-0", "event", "completed", "id", id, "data", event)
        }
        try await keep("a", at: 5000)
        try await fixture.server.cli("ACL", "SETUSER", "default", "-psubscribe")
        let client = try RawClient(address)
        await client.send(
            "GET /api/queues/default/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 5000\r\n\r\n")
        try await eventually("the refusal of a subscription") {
            try await fixture.server.cli("ACL", "LOG").contains("psubscribe")
        }
        try await keep("b", at: 6000)
        try await fixture.server.cli("ACL", "SETUSER", "default", "+psubscribe")
        let text = await client.read(until: "event: subscribed")
        #expect(text.contains(#""id":"b""#), "\(text)")
        await server.stop()
    }

    @Test("events that were dropped are missing at their place, although the subscription stays open")
    func droppedEvents() {
        let (listeners, buffer) = (Listeners(), ListenerBuffer())
        listeners.add(buffer)
        listeners.open()
        listeners.post("a")
        #expect(buffer.take().items == [.opened, .event("a")])
        listeners.post("b")
        // A full buffer of the subscription is replaced by this.
        listeners.open()
        listeners.post("c")
        #expect(buffer.take().items == [.event("b"), .opened, .event("c")])
        // While the subscription is tried again, nothing comes. Whoever joins meanwhile waits for it as well.
        listeners.lose()
        let other = ListenerBuffer()
        listeners.add(other)
        #expect(buffer.take().items.isEmpty && other.take().items.isEmpty)
        for _ in 0..<3 { listeners.open() }
        #expect(other.take().items == [.opened, .dropped])
    }

    @Test("a text that is read again and has not changed keeps its version, by which streams know what they have sent")
    func versions() async throws {
        let reads = SharedReads(try await WebFixture().queue.redis.traffic)
        let first = try await reads.text("k", within: .zero) { "a" }
        let second = try await reads.text("k", within: .zero) { "a" }
        await reads.expireAll()
        let third = try await reads.text("k", within: .seconds(60)) { "a" }
        let changed = try await reads.text("k", within: .zero) { "b" }
        let other = try await reads.text("l", within: .zero) { "a" }
        #expect(first.version == second.version && second.version == third.version)
        #expect(changed.text == "b" && Set([first.version, changed.version, other.version]).count == 3)
    }

    @Test("the texts that are kept for others are bounded, and the newest ones stay") func boundedTexts() async throws {
        let reads = SharedReads(try await WebFixture().queue.redis.traffic)
        let read = Shared(0)
        func text(_ key: Int) async throws {
            _ = try await reads.text("\(key)", within: .seconds(60)) {
                read.change { $0 += 1 }
                return String(repeating: "a", count: 10 << 20)
            }
        }
        for key in 1...8 { try await text(key) }
        #expect(await reads.length == 30 << 20)
        for key in 6...8 { try await text(key) }
        #expect(read.value == 8)
    }

    @Test("line breaks in a producer's JSON do not break a stream", arguments: ["\n\n", "\r\n\r\n", "\r"])
    func lineBreaks(_ space: String) async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let client = try await open("/api/live?watch=queues/default/jobs/a&events=default/a", on: address)
        _ = await client.read(until: "subscribed")
        let meta = "{\"a\":\(space)[1]}"
        try await fixture.server.cli(
            "LPUSH", "haul:{default}:jobs", "{\"url\":\"http://h/a\",\"id\":\"a\",\"meta\":\(meta)}")
        let claim = try #require(try await fixture.claim())
        try await fixture.settle(claim, WebFixture.done)
        let text = await client.read(until: #""ended":true"#)
        let normal = String(decoding: text.utf8.map { $0 == 13 ? 10 : $0 }, as: UTF8.self)
        let lines = normal.split(separator: "\n")
        #expect(lines.contains { $0.hasPrefix("data: ") && $0.contains("\"meta\":{\"a\":") })
        for line in lines where line.hasPrefix("data: ") {
            #expect((try? JSON(String(line.dropFirst(6)))) != nil, "\(line)")
        }
        await server.stop()
    }

    @Test(
        "a stream says 2 s after Redis' last answer that Redis does not answer, and continues once it does",
        arguments: [SIGSTOP, SIGTERM])
    func silentRedis(_ signal: Int32) async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let client = try await open("/api/live?watch=queues/default&watch=queues/default/workers", on: address)
        #expect(await client.read(until: "default/workers").contains("event: change"))
        fixture.server.signal(signal)
        let start = ContinuousClock.now
        let text = await client.read(until: #""error":"redis""#)
        let elapsed = ContinuousClock.now - start
        #expect(text.contains("event: failure"))
        // A call of Redis has 5 s.
        #expect(elapsed > .milliseconds(600) && elapsed < .seconds(4), "\(elapsed)")
        if signal == SIGSTOP { fixture.server.signal(SIGCONT) } else { try await fixture.server.restart() }
        #expect(await client.read(until: "event: change").contains("event: change"))
        await server.stop()
    }

    @Test("the subscription ends when its last client leaves") func endOfSubscription() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        func subscriptions() async throws -> Int {
            try await fixture.server.cli("CLIENT", "LIST").split(separator: "\n").count { $0.contains("haul-events") }
        }
        var clients: [RawClient] = []
        for _ in 0..<4 { clients.append(try await open("/api/queues/default/events?id=a", on: address)) }
        for client in clients { _ = await client.read(until: "subscribed") }
        #expect(try await subscriptions() == 1)
        clients = []
        try await eventually("the subscription to end") { try await subscriptions() == 0 }
        let hasty = try RawClient(address)
        await hasty.send("HEAD /api/queues/default/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        _ = await hasty.read()
        #expect(try await subscriptions() == 0)
        await server.stop()
    }

    @Test("a resource that cannot be watched is refused") func unknownResources() async throws {
        let fixture = try await WebFixture()
        for target in ["watch=session", "watch=queues/other", "events=default", "events=default/%20"] {
            #expect([400, 404].contains(await fixture.get("/api/live?" + target).status), "\(target)")
        }
    }

    @Test("a text that was read within its age is known without a wait, and no other one is") func known() async throws
    {
        let reads = SharedReads(Redis(try RedisURL("redis://127.0.0.1:1"), name: "t").traffic)
        let texts = ["a", "b"].map { (key: $0, age: Duration.seconds(60)) }
        let (gate, opener) = AsyncStream<Void>.makeStream()
        #expect(await reads.known(texts).allSatisfy { $0 == nil })
        _ = try await reads.text("a", within: .seconds(60)) { "the text of a" }
        // A read in progress is not waited for.
        let slow = Task {
            try await reads.text("b", within: .seconds(60)) {
                for await _ in gate {}
                return "late"
            }
        }
        #expect(await reads.known(texts).map { $0?.text } == ["the text of a", nil])
        opener.finish()
        #expect(try await slow.value.text == "late")
        #expect(await reads.known(texts).map { $0?.text } == ["the text of a", "late"])
        #expect(await reads.known([("a", .zero)])[0] == nil)
        await reads.expireAll()
        #expect(await reads.known(texts).allSatisfy { $0 == nil })
    }
}
