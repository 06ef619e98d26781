import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite("Webhooks in Redis") struct WebhookTests {
    private static let notify = #""notify":{"url":"http://hook/?key=1","secret":"s"}"#

    /// The webhooks that wait, the oldest first, and the events that they carry.
    private func webhooks(_ f: QueueFixture) async throws -> [(job: Job, event: JSON)] {
        let reply = try await f.redis.send(Command("LRANGE", f.queue.keys.jobs, 0, -1)).array ?? []
        return try reply.reversed().compactMap { try webhook(Job(element: $0.bytes ?? [])) }
    }

    private func webhook(_ job: Job) throws -> (job: Job, event: JSON)? {
        guard job.request.webhook == "s" else { return nil }
        #expect(job.urls == ["http://hook/?key=1"] && job.method == "POST" && job.deadline == .seconds(86400))
        return (job, try JSON(#require(job.request.json)))
    }

    @Test("the end of a run is a signed request whose body is the event, and is pushed once") func completed()
        async throws
    {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/f","id":"a","meta":{"n":1.50},\#(Self.notify)}"#)
        let claim = try #require(try await f.claim())
        for _ in 0..<3 { try await f.settle(claim, QueueFixture.done) }
        let sent = try await webhooks(f)
        try #require(sent.count == 1)
        #expect(sent[0].event["event"]?.string == "completed" && sent[0].event["file"]?.string == "f")
        #expect(sent[0].job.request.json?.contains(#""meta":{"n":1.50}"#) == true)
        let record = try #require(try await f.queue.job("a"))
        let position = "\(record["epoch"] ?? "")-\(record["seq"] ?? "")"
        #expect(sent[0].job.id == "a.completed-\(position)")
        // The URL may be secret, so the hash does not show it, and with the job's spec it is gone.
        #expect(record["notify"]?.contains("hook") == false)
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.spec("a"))).int == 0)
        try await f.expectOrder()
    }

    @Test("only the ends that are asked for are reported, whoever makes them") func events() async throws {
        let f = try await QueueFixture()
        func push(_ id: String, _ events: String, _ more: String = "") async throws {
            try await f.push(
                #"{"url":"http://h/\#(id)","id":"\#(id)"\#(more),"notify":{"url":"http://hook/?key=1","secret":"s","events":[\#(events)]}}"#
            )
        }
        var sent: [(job: Job, event: JSON)] = []
        try await push("silent", #""failed""#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await f.claim() == nil)
        // The call that finds that these must not run claims their webhooks at once.
        try await push("late", #""failed""#, #","deadline":0"#)
        sent += [try webhook(try #require(try await f.claim()).job())].compactMap(\.self)
        try await push("stopped", #""cancelled","completed""#)
        try await f.queue.request(.cancelled, of: ["stopped"])
        sent += [try webhook(try #require(try await f.claim()).job())].compactMap(\.self)
        #expect(try await f.state("stopped") == .cancelled)
        try #require(sent.count == 2)
        #expect(sent.map { $0.event["id"]?.string } == ["late", "stopped"])
        #expect(sent.map { $0.event["event"]?.string } == ["failed", "cancelled"])
        #expect(sent[0].event["error"]?.string == "deadline")
    }

    @Test("the queue's default reports every job but webhooks and those that say false, and the ends of batches")
    func defaults() async throws {
        let f = try await QueueFixture()
        try await f.redis.send(
            Command(
                "HSET", f.queue.keys.defaults, "notify", #"{"url":"http://hook/?key=1","secret":"s"}"#, "reply_to",
                #""r""#))
        try await f.push(#"{"url":"http://h/a","id":"a","batch":{"name":"b","size":1}}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        let sent = try await webhooks(f)
        #expect(sent.compactMap { $0.event["event"]?.string }.sorted() == ["batch_ended", "completed"])
        #expect(sent.contains { $0.job.id?.hasPrefix("batch:b.ended-") == true && $0.event["batch"]?.string == "b" })
        // The webhooks' own ends are not reported, and have no defaults.
        for _ in sent {
            let claim = try #require(try await f.claim())
            #expect(try claim.job().replyTo == nil && claim.job().notify == nil)
            try await f.settle(claim, QueueFixture.done)
        }
        #expect(try await webhooks(f).isEmpty)
        try await f.push(#"{"url":"http://h/c","id":"c","notify":false}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await webhooks(f).isEmpty)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("r"))).int == 2)
        try await f.expectOrder()
    }

    @Test("a completion that waits for replicas is reported when they have it") func withheld() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/f","id":"a",\#(Self.notify)}"#)
        let claim = try #require(try await f.claim())
        let end = RunEnd(claim.run, QueueFixture.done, awaitsReplicas: true)
        _ = try await f.queue.settle([end], worker: f.worker, next: [])
        #expect(try await webhooks(f).isEmpty)
        #expect(try await f.queue.announceReplicated(to: 0, within: .zero, on: f.redis) == .announced(1))
        #expect(try await webhooks(f).map { $0.event["event"]?.string } == ["completed"])
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.spec("a"))).int == 0)
        try await f.expectOrder()
    }

    @Test("a job that is pushed again without notify has no webhook any more") func anew() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/f","id":"a",\#(Self.notify)}"#)
        try await f.settle(
            try #require(try await f.claim()), .failed(Failure(.http(404), "m"), retryable: false, received: 0))
        try await f.redis.send(Command("DEL", f.queue.keys.jobs))
        try await f.push(#"{"url":"http://h/f","id":"a"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await webhooks(f).isEmpty)
        #expect(try await f.queue.job("a")?["notify"] == nil)
    }

    @Test("an event that does not fit into an element is cut, and one with a response comes without it")
    func long() async throws {
        let f = try await QueueFixture()
        let url = "http://hook/?key=1" + String(repeating: "k", count: 2000)
        let meta = #"""# + String(repeating: "m", count: 4000) + #"""#
        try await f.push(
            #"{"url":"http://h/f","id":"a","meta":\#(meta),"notify":{"url":"\#(url)","secret":"t"}}"#)
        var file = QueueFixture.file
        file.file = String(repeating: #"""#, count: 4096)
        try await f.settle(try #require(try await f.claim()), .completed(file, seconds: 1, unchanged: false))
        let element = try await f.redis.send(Command("LPOP", f.queue.keys.jobs)).bytes ?? []
        let cut = try JSON(#require(try Job(element: element).request.json))
        #expect(cut["cut"]?.bool == true && cut["event"]?.string == "completed" && cut["id"]?.string == "a")
        try await f.push(#"{"kind":"request","url":"http://h/f","id":"r",\#(Self.notify)}"#)
        let response = StoredResponse(
            status: 200, headers: [], body: [UInt8](repeating: 65, count: 50_000), requestDigest: "d", method: "GET",
            validated: 1)
        try await f.settle(try #require(try await f.claim()), .responded(response, seconds: 1, unchanged: false))
        let sent = try #require(try await webhooks(f).first)
        #expect(sent.event["response_dropped"]?.bool == true && sent.event["status"]?.integer == 200)
    }

    @Test("a signed request of a producer has a deadline of a day, unless it sets another one") func ownDeadline()
        async throws
    {
        let f = try await QueueFixture()
        for (more, seconds) in [("", 86_400), (#","deadline":60"#, 60)] {
            try await f.push(#"{"kind":"request","url":"http://h/","id":"a\#(seconds)","webhook":"s"\#(more)}"#)
            let claim = try #require(try await f.claim())
            #expect(abs(try #require(claim.deadline) - claim.clock.milliseconds - Int64(seconds) * 1000) < 30_000)
        }
    }

    @Test("a webhook is accepted however deep the job's meta is", arguments: [("[", "]"), (#"{"a":"#, "}")])
    func nested(_ open: String, _ close: String) async throws {
        let f = try await QueueFixture()
        for depth in [JSON.deepest - 2, JSON.deepest - 1] {
            let meta = String(repeating: open, count: depth) + "1" + String(repeating: close, count: depth)
            try await f.push(#"{"url":"http://h/f","id":"d\#(depth)","meta":\#(meta),\#(Self.notify)}"#)
            try await f.settle(try #require(try await f.claim()), QueueFixture.done)
            let webhook = try #require(try await f.claim())
            let event = try JSON(#require(try webhook.job().request.json))
            #expect(event["id"]?.string == "d\(depth)")
            #expect((event["cut"] != nil) == (depth == JSON.deepest - 1))
            try await f.settle(webhook, QueueFixture.done)
        }
        // Brackets side by side are no levels.
        let flat = "[" + String(repeating: "[],", count: 200) + "0]"
        try await f.push(#"{"url":"http://h/f","id":"flat","meta":\#(flat),\#(Self.notify)}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await webhooks(f).first?.event["meta"] != nil)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.rejected)).int == 0)
    }
}
