import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// What a stream sends of the events that were kept while its client or its server was away.
extension StreamTests {
    private func keep(_ ids: [String], from first: Int, in fixture: WebFixture) async throws {
        for (number, id) in ids.enumerated() {
            let time = first + number
            let event =
                #"{"v":1,"event":"completed","id":"\#(id)","queue":"default","epoch":1,"seq":\#(time),"at":\#(time)}"#
            try await fixture.queue.redis.send(
                Command(
                    "XADD", fixture.queue.keys.log, "\(time)-0", "event", "completed", "id", id, "data", event))
        }
    }

    @Test("a client that comes back gets the whole backlog, and with a filter what is of its job")
    func longBacklog() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        try await fixture.queue.set(.eventStream, to: "100000")
        try await keep((0..<12_000).map { "v\($0)" }, from: 1000, in: fixture)
        func comeBack(_ query: String) async throws -> String {
            let client = try RawClient(address)
            await client.send(
                "GET /api/queues/default/events\(query) HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1000\r\n\r\n")
            return await client.read(until: "event: subscribed")
        }
        let all = try await comeBack("")
        let ids = all.matches(of: /"id":"(v\d+)"/).map { String($0.1) }
        #expect(ids == (0..<12_000).map { "v\($0)" } && !all.contains("event: gap"), "\(ids.count)")
        let one = try await comeBack("?id=v11999")
        let own = one.matches(of: /"id":"(v\d+)"/).map { String($0.1) }
        #expect(own == ["v11999"] && !one.contains("event: gap"))
        await server.stop()
    }

    /// Ends the server's subscriptions, and has Redis refuse new ones until `body` has returned.
    private func loseSubscription(_ fixture: WebFixture, _ body: () async throws -> Void) async throws {
        try await fixture.server.cli("ACL", "SETUSER", "default", "-psubscribe", "-subscribe")
        try await fixture.server.cli("CLIENT", "KILL", "TYPE", "pubsub")
        try await eventually("the refusal of a subscription") {
            try await fixture.server.cli("ACL", "LOG").contains("subscribe")
        }
        try await body()
        try await fixture.server.cli("ACL", "SETUSER", "default", "+psubscribe", "+subscribe")
    }

    @Test("an open stream is filled up with what was published while the server's subscription was lost")
    func lostSubscription() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        try await fixture.queue.set(.eventStream, to: "1000")
        let client = try await open("/api/queues/default/events", on: address)
        _ = await client.read(until: "subscribed")
        func complete(_ id: String) async throws {
            _ = await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#)
            try await fixture.settle(try #require(try await fixture.claim()), WebFixture.done)
        }
        try await complete("a")
        var text = await client.read(until: #""id":"a""#)
        try await loseSubscription(fixture) { for id in ["b", "c"] { try await complete(id) } }
        text += await client.read(until: "subscribed")
        try await complete("d")
        text += await client.read(until: #""id":"d""#)
        let ids = text.matches(of: /"id":"(\w)"/).map { String($0.1) }
        #expect(ids == ["a", "b", "c", "d"] && !text.contains("event: gap"), "\(text)")
        await server.stop()
    }

    @Test("without kept events an open stream has its gap between what came before the loss and what comes after it")
    func lostEvents() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let client = try await open("/api/queues/default/events", on: address)
        _ = await client.read(until: "subscribed")
        func publish(_ id: String) async throws {
            let event = #"{"v":1,"event":"completed","id":"\#(id)","queue":"default","at":5000}"#
            try await fixture.server.cli("PUBLISH", "haul:{default}:events:\(id)", event)
        }
        try await publish("a")
        var text = await client.read(until: #""id":"a""#)
        try await loseSubscription(fixture) { try await publish("b") }
        text += await client.read(until: "subscribed")
        try await publish("c")
        text += await client.read(until: #""id":"c""#)
        let order = text.matches(of: /"id":"\w"|event: (gap|subscribed)/).map { String($0.0) }
        #expect(order == [#""id":"a""#, "event: gap", "event: subscribed", #""id":"c""#], "\(text)")
        await server.stop()
    }

    @Test("a client that has seen no event comes back with the id of subscribed, and gets what came since")
    func subscribedID() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let events = "/api/queues/default/events"
        func subscribe(_ last: String? = nil) async throws -> (text: String, id: String) {
            let client = try RawClient(address)
            let field = last.map { "Last-Event-ID: \($0)\r\n" } ?? ""
            await client.send("GET \(events) HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n")
            var text = await client.read(until: "event: subscribed")
            let pattern = /event: subscribed\nid: (\d+(?:-\d+)?)\n/
            if text.firstMatch(of: pattern) == nil { text += await client.read(until: "data: {}") }
            return (text, text.firstMatch(of: pattern).map { String($0.1) } ?? "")
        }
        func complete(_ id: String) async throws {
            _ = await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#)
            try await fixture.settle(try #require(try await fixture.claim()), WebFixture.done)
        }
        // Nothing is kept, so events may be missing since.
        let before = try await subscribe().id
        try await fixture.queue.set(.eventStream, to: "1000")
        #expect(try await subscribe(before).text.contains("event: gap"))
        let first = try await subscribe().id
        #expect(first == "0-0")
        #expect(try await !subscribe(first).text.contains("event: gap"))
        try await complete("a")
        let back = try await subscribe(first)
        #expect(back.text.contains(#""id":"a""#) && !back.text.contains("event: gap"), "\(back)")
        let second = try await subscribe().id
        #expect(second == back.id)
        try await complete("b")
        let last = try await subscribe(second).text
        #expect(last.contains(#""id":"b""#) && !last.contains(#""id":"a""#) && !last.contains("gap"), "\(last)")
        // That entry was dropped.
        try await fixture.server.cli("XTRIM", "haul:{default}:log", "MAXLEN", "0")
        #expect(try await subscribe(second).text.contains("event: gap"))
        for id in ["1-", "-1", "1-1,1-1", "1-x"] {
            let client = try RawClient(address)
            await client.send("GET \(events) HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: \(id)\r\n\r\n")
            #expect(await client.read(until: "Last-Event-ID").contains("400"), "\(id)")
        }
        await server.stop()
    }

    @Test("the events of a batch are followed by its name") func batchEvents() async throws {
        let fixture = try await WebFixture()
        let (server, address) = try await serve(fixture)
        let client = try await open("/api/queues/default/events?id=batch/night", on: address)
        _ = await client.read(until: "subscribed")
        _ = await fixture.push(#"{"url":"http://h/a","id":"a","batch":{"name":"night","size":1}}"#)
        try await fixture.settle(try #require(try await fixture.claim()), WebFixture.done)
        let text = await client.read(until: "batch_ended")
        #expect(text.contains("batch_ended") && !text.contains(#""id":"a""#), "\(text)")
        await server.stop()
    }
}
