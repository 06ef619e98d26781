import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite("Kinds of jobs in a queue")
struct KindTests {
    private static let response = StoredResponse(
        status: 201, headers: [HeaderField("etag", "\"e\""), HeaderField("x", "a \"b\"")],
        body: Array("{\"é\":\n1}".utf8), requestDigest: "q", method: "POST", validated: 5)

    /// A queue with a worker `old` that does only downloads, and w1, which does everything.
    private func fixture() async throws -> QueueFixture {
        let f = try await QueueFixture()
        let old = WorkerIdentity(name: "old", store: "s", instance: "old")
        _ = try await f.queue.register(old, fields: [("kinds", "download")], known: [])
        return f
    }

    private func length(_ kind: String, _ f: QueueFixture) async throws -> Int? {
        try await f.redis.send(Command("LLEN", "haul:{default}:deferred_kind:\(kind)")).int
    }

    @Test("elements that a worker does not do wait in order for a worker that does them") func deferred() async throws {
        let f = try await fixture()
        try await f.push(#"{"id":"r1","kind":"request","url":"http://h/1"}"#)
        try await f.push(#"{"id":"d1","url":"http://h/2"}"#)
        try await f.push(#"{"id":"r2","kind":"request","url":"http://h/3"}"#)
        #expect(try await f.claim("old")?.run.id == "d1")
        #expect(try await f.claim("old") == nil)
        #expect(try await length("request", f) == 2)
        let old = WorkerIdentity(name: "old", store: "s", instance: "old")
        #expect(try await f.queue.tick(old, runs: []).deferredKinds == ["request"])
        #expect(try await f.tick().deferredKinds.isEmpty)
        let first = try #require(try await f.claim())
        #expect(first.run.id == "r1")
        #expect(try first.job().kind == .request)
        // A job that has run and is back in the queue is still not for the other worker.
        try await f.settle(first, .released(why: "shutdown"))
        #expect(try await f.claim("old") == nil)
        // No operation can have come before a job that is known, so that no list has to be searched for it.
        #expect(try await length("request", f) == 2)
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys[.recheck])).int == 0)
        let next = [try await f.claim()?.run.id, try await f.claim()?.run.id].compactMap(\.self)
        #expect(Set(next) == ["r1", "r2"])
        #expect(try await f.claim() == nil)
        #expect(try await f.redis.send(Command("EXISTS", "haul:{default}:deferred_kinds")).int == 0)
        try await f.expectOrder()
    }

    @Test("deferred elements are claimed although the queue is never empty") func busy() async throws {
        let f = try await fixture()
        try await f.push(#"{"id":"r1","kind":"request","url":"http://h/1"}"#)
        #expect(try await f.claim("old") == nil)
        try await f.push(#"{"id":"d1","url":"http://h/2"}"#)
        try await f.tick()
        #expect(try await length("request", f) == 0)
        #expect(try await f.claim()?.run.id == "r1")
        #expect(try await f.claim()?.run.id == "d1")
    }

    @Test("deferred elements come back in their order to a queue that is never empty") func order() async throws {
        let f = try await fixture()
        try await f.push((0..<40).map { #"{"id":"r\#($0)","kind":"request","url":"http://h/\#($0)"}"# })
        while try await length("request", f) ?? 0 < 40 { #expect(try await f.claim("old") == nil) }
        try await f.push(#"{"id":"d","url":"http://h/2"}"#)
        try await f.tick()
        try await f.tick()
        var begun: [String] = []
        while let claim = try await f.claim() { begun.append(claim.run.id) }
        // What comes back later comes before what came back already.
        #expect(begun.count == 41)
        for pages in [begun[0..<16], begun[16..<32]] {
            #expect(pages.map { Int($0.dropFirst())! } == pages.map { Int($0.dropFirst())! }.sorted(), "\(begun)")
        }
    }

    @Test("a repeated push of an unknown kind does not wait for ever, once its job was cancelled") func repeated()
        async throws
    {
        let f = try await QueueFixture()
        let element = #"{"id":"a","at":\#(try await f.queue.time()),"url":"http://h/a","kind":"later"}"#
        try await f.push(element)
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["a"])
        while try await f.tick().hasMoreWork {}
        #expect(try await f.state("a") == .cancelled)
        #expect(try await length("later", f) == 0)
        try await f.push(element)
        #expect(try await f.claim() == nil)
        while try await f.tick().hasMoreWork {}
        #expect(try await length("later", f) == 0)
        try await f.expectOrder()
    }

    @Test("an element of an unknown kind waits, and an invalid kind is rejected") func unknown() async throws {
        let f = try await fixture()
        try await f.push(#"{"id":"n","kind":"transcode","what":[1]}"#)
        try await f.push(#"{"id":"x","kind":"Trans code","url":"http://h/"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await length("transcode", f) == 1)
        #expect(try await f.queue.rejected(limit: 9).count == 1)
        #expect(try await f.tick().deferredKinds == ["transcode"])
        // A worker of a later version would find the element as it was pushed.
        let element = try await f.redis.send(Command("LINDEX", "haul:{default}:deferred_kind:transcode", -1)).string
        #expect(element == #"{"id":"n","kind":"transcode","what":[1]}"#)
        try await f.expectOrder()
    }

    @Test(
        "a cancel also ends a push of a kind that no worker reads, whatever the state of its job",
        arguments: [JobState.running, .scheduled, .completed, .failed])
    func unread(state: JobState) async throws {
        let f = try await fixture()
        try await f.push(#"{"id":"x","url":"http://h/1"}"#)
        let claim = try #require(try await f.claim())
        let ends: [JobState: Settlement] = [
            .completed: QueueFixture.done, .scheduled: .retry(after: .seconds(1000), Failure(.connect, "m")),
            .failed: .failed(Failure(.io, "m"), retryable: true, received: 0),
        ]
        if let end = ends[state] { try await f.settle(claim, end) }
        #expect(try await f.state("x") == state)
        try await f.push(#"{"id":"x","kind":"later","at":\#(try await f.queue.time())}"#)
        #expect(try await f.claim() == nil)
        #expect(try await length("later", f) == 1)
        try await f.queue.request(.cancelled, of: ["x"])
        let isRunning = state == .running
        try await f.tick(isRunning ? [claim] : [])
        if isRunning { try await f.settle(claim, .cancelled) }
        while try await f.tick().hasMoreWork {}
        #expect(try await length("later", f) == 0)
        #expect(try await f.queue.stats().counts[.queued] == 0)
        try await f.expectOrder()
    }

    @Test("keys of another type stop no job") func strange() async throws {
        let f = try await fixture()
        try await f.redis.send(Command("SET", "haul:{default}:deferred_kinds", "x"))
        try await f.push(#"{"id":"r1","kind":"request","url":"http://h/1"}"#)
        try await f.push(#"{"id":"d1","url":"http://h/2"}"#)
        #expect(try await f.claim("old")?.run.id == "d1")
        // A worker checks the kinds that it does, whatever the index says.
        #expect(try await f.claim()?.run.id == "r1")
        try await f.tick()
    }

    @Test("an empty ETag of a response is absent from the event, as it is from the hash") func emptyETag() async throws
    {
        let f = try await fixture()
        try await f.push(#"{"id":"r","kind":"request","url":"http://h/","reply_to":"a"}"#)
        var response = Self.response
        response.headers[0] = HeaderField("etag", "")
        try await f.settle(try #require(try await f.claim()), .responded(response, seconds: 1, unchanged: false))
        let text = try #require(try await f.redis.send(Command("LPOP", "haul:{default}:reply:a")).bytes)
        #expect(Event(text)?.json["etag"] == nil)
        #expect(try await f.queue.job("r")?["etag"] == nil)
    }

    @Test("a response is in the hash, in the event, and in every reply") func response() async throws {
        let f = try await fixture()
        try await f.push(#"{"id":"r","kind":"request","url":"http://h/?secret","method":"POST","reply_to":"a"}"#)
        let claim = try #require(try await f.claim())
        try await f.settle(claim, .responded(Self.response, seconds: 1.5, unchanged: false))
        let record = try #require(try await f.queue.job("r"))
        #expect(record.state == .completed && record["kind"] == "request" && record["status"] == "201")
        #expect(StoredResponse(hash: record.fields) == Self.response)
        try await f.push(#"{"id":"r","kind":"request","url":"http://h/?secret","at":1763712000000,"reply_to":"b"}"#)
        #expect(try await f.claim() == nil)
        for name in ["a", "b"] {
            let text = try #require(try await f.redis.send(Command("LPOP", "haul:{default}:reply:\(name)")).bytes)
            let event = try #require(Event(text))
            #expect(event.kind == .completed && event.status == 201 && event.bytes == Int64(Self.response.body.count))
            #expect(event.responseBody == Self.response.body && event.responseHeaders == Self.response.headers)
            #expect(event.etag == "\"e\"")
        }
        // The next run gets the response, and a job of another kind does not have it.
        try await f.push(#"{"id":"r","kind":"request","url":"http://h/","fresh_for":10}"#)
        let again = try #require(try await f.claim())
        #expect(again.storedResponse == Self.response && !again.wasSent)
        try await f.settle(again, .responded(Self.response, seconds: 0, unchanged: true))
        try await f.push(#"{"id":"r","url":"http://h/"}"#)
        let download = try #require(try await f.claim())
        #expect(download.storedResponse == nil && download.completed == nil)
        try await f.settle(download, QueueFixture.done)
        let last = try #require(try await f.queue.job("r"))
        #expect(last["status"] == nil && last["body"] == nil && last["kind"] == nil && last["file"] == "f")
        try await f.expectOrder()
    }

    @Test("a binary response, and the response of a failed job, are in the event as well") func binary() async throws {
        let f = try await fixture()
        try await f.push(#"{"id":"r","kind":"request","url":"http://h/","reply_to":"a"}"#)
        let claim = try #require(try await f.claim())
        var response = Self.response
        response.body = [0, 1, 255]
        let end = RunEnd(
            claim.run, .failed(Failure(.http(422), "no"), retryable: false, received: 3), response: response)
        _ = try await f.queue.settle([end], worker: f.worker, next: [])
        let text = try #require(try await f.redis.send(Command("LPOP", "haul:{default}:reply:a")).bytes)
        let event = try #require(Event(text))
        #expect(event.kind == .failed && event.status == 201)
        #expect(event["body_base64"]?.string == "AAH/" && event.responseBody == response.body)
        #expect(try await f.queue.job("r").flatMap { StoredResponse(hash: $0.fields) } == response)
    }

    @Test("a newer push of another kind does not change a job that has not ended") func renewed() async throws {
        let f = try await fixture()
        try await f.push(#"{"id":"r","kind":"request","url":"http://h/1","delay":100}"#)
        #expect(try await f.claim() == nil)
        try await f.push(#"{"id":"r","url":"http://h/2"}"#)
        #expect(try await f.claim() == nil)
        try await f.redis.send(Command("RPUSH", f.queue.keys.jobs, #"{"id":"r"}"#))
        let claim = try #require(try await f.claim())
        #expect(throws: Job.Invalid.self) { _ = try claim.read { _ in } }
    }
}
