import Foundation
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite("Responses that a queue keeps")
struct ResponseTests {
    /// A response that counts as `bytes` bytes: two for the empty header fields `{}`, the rest for the body.
    private static func response(_ bytes: Int) -> StoredResponse {
        StoredResponse(
            status: 200, headers: [], body: Array(repeating: UInt8(ascii: "x"), count: bytes - 2), requestDigest: "q",
            method: "GET", validated: 5)
    }

    @Test(
        "a text whose JSON would be too long for Redis is kept in base 64",
        arguments: [("\u{1}", 400_000, false), ("\"", 1 << 20, false), ("\u{1}", 233_000, true), ("x", 1 << 20, true)])
    func longText(_ unit: String, _ count: Int, isText: Bool) {
        var response = Self.response(2)
        response.body = Array(repeating: unit.utf8.first!, count: count)
        #expect((response.text != nil) == isText)
        let kept = Dictionary(uniqueKeysWithValues: response.fields)
        #expect(kept.values.allSatisfy { JSON.quoted($0).utf8.count <= 1_398_104 + 2 })
        #expect(StoredResponse(hash: kept)?.body == response.body)
    }

    @Test(
        "no response, whatever its bytes are, makes an argument that the shipped configuration refuses",
        arguments: [1, 9, 34, 127, 255] as [UInt8])
    func anyBytes(_ byte: UInt8) throws {
        let shipped = SchemaValidator.repository.appending(path: "deploy/redis/redis.conf")
        #expect(try String(contentsOf: shipped, encoding: .utf8).contains("\nproto-max-bulk-len 2mb\n"))
        let value = String(decoding: [UInt8](repeating: byte, count: 128 << 10), as: UTF8.self)
        for count in [1 << 20, 349_000] {
            let response = StoredResponse(
                status: 200, headers: StoredResponse.joined([HeaderField("x", value), HeaderField(value, "x")]),
                body: Array(repeating: byte, count: count), requestDigest: "q", method: "GET", validated: 5)
            let end = RunEnd(Run(id: "a", token: "t"), .responded(response, seconds: 1, unchanged: false))
            for argument in end.arguments {
                var bytes: [UInt8] = []
                argument.encode(into: &bytes)
                #expect(bytes.count < 2 << 20, "\(count) bytes")
            }
        }
    }

    @Test("the length of a quoted text is known without quoting it") func quotedLength() {
        for byte in UInt8.min..<0x80 {
            let quoted = JSON.quoted(String(Unicode.Scalar(byte)))
            #expect(JSON.quotedLength[Int(byte)] == quoted.utf8.count - 2, "\(byte)")
        }
    }

    @Test("a validator that is too long to be stored is not stored beside the header fields") func longValidator() {
        var response = Self.response(2)
        response.headers = [
            HeaderField("etag", String(repeating: "e", count: 1025)), HeaderField("last-modified", "x"),
        ]
        let kept = Dictionary(uniqueKeysWithValues: response.fields)
        #expect(kept["etag"] == "" && kept["last_modified"] == "x")
    }

    private func bench(_ most: Int) async throws -> QueueFixture {
        let f = try await QueueFixture()
        try await f.queue.set(.maxResponsesBytes, to: "\(most)")
        return f
    }

    private func claim(_ id: String, _ f: QueueFixture, more: String = "") async throws -> Claim {
        try await f.push(#"{"id":"\#(id)","kind":"request","url":"http://h/"\#(more)}"#)
        return try #require(try await f.claim())
    }

    private func answer(_ id: String, _ bytes: Int, _ f: QueueFixture) async throws {
        try await f.settle(try await claim(id, f), .responded(Self.response(bytes), seconds: 1, unchanged: false))
    }

    private func kept(_ f: QueueFixture) async throws -> [String] {
        try await f.redis.send(Command("ZRANGE", f.queue.keys.responses, 0, -1)).array?.compactMap(\.string) ?? []
    }

    @Test("the oldest responses are dropped when a new one exceeds the limit, and their jobs say so")
    func bounded() async throws {
        let f = try await bench(250)
        for id in ["1", "2", "3"] {
            try await answer(id, 100, f)
            // Their order is by milliseconds.
            try await Task.sleep(for: .milliseconds(2))
        }
        #expect(try await kept(f) == ["2", "3"])
        #expect(try await f.queue.keptResponses() == KeptResponses(bytes: 200, limit: 250))
        let first = try #require(try await f.queue.job("1"))
        #expect(first.state == .completed && first["status"] == "200" && first["body"] == nil)
        #expect(first.droppedResponse != nil && StoredResponse(hash: first.fields) == nil)
        #expect(try await f.queue.job("2").flatMap { StoredResponse(hash: $0.fields) } == Self.response(100))
        try await f.expectOrder()
        // A later `reply_to` gets the end without the response, and `fresh_for` does not use the dropped response.
        let push = #","at":1763712000000,"reply_to":"late""#
        try await f.push(#"{"id":"1","kind":"request","url":"http://h/"\#(push)}"#)
        #expect(try await f.claim() == nil)
        let reply = try #require(try await f.redis.send(Command("LPOP", "haul:{default}:reply:late")).bytes)
        let event = try #require(Event(reply))
        #expect(event.status == 200 && event["response_dropped"]?.bool == true && event.responseBody == nil)
        let again = try await claim("1", f, more: #","fresh_for":100"#)
        #expect(again.storedResponse == nil)
        try await f.settle(again, .responded(Self.response(50), seconds: 1, unchanged: false))
        #expect(try await f.queue.job("1")?.droppedResponse == nil)
        #expect(try await f.queue.keptResponses().bytes == 250)
        try await f.expectOrder()
    }

    @Test("a response that is replaced or forgotten, or whose job changes its kind, is not counted")
    func counted() async throws {
        let f = try await bench(10_000)
        for id in ["1", "2", "3", "4"] { try await answer(id, 100, f) }
        try await answer("1", 40, f)
        #expect(try await f.queue.keptResponses().bytes == 340)
        // A failed job may have a response as well.
        let end = RunEnd(
            try await claim("5", f).run, .failed(Failure(.http(422), "no"), retryable: false, received: 3),
            response: Self.response(30))
        _ = try await f.queue.settle([end], worker: f.worker, next: [])
        #expect(try await f.queue.keptResponses().bytes == 370)
        try await f.queue.request(.removed, of: ["2"])
        try await f.tick()
        #expect(try await f.queue.keptResponses().bytes == 270)
        try await f.push(#"{"id":"3","url":"http://h/"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await f.queue.keptResponses().bytes == 170)
        // The response of an expired job goes with the job's place in the index.
        try await f.redis.send(Command("ZADD", f.queue.keys.index(.completed), 1, "4"))
        try await f.redis.send(Command("DEL", f.queue.keys.job("4")))
        try await f.expectOrder()
        try await f.tick()
        #expect(try await f.queue.keptResponses().bytes == 70)
        try await f.queue.request(.removed, of: ["1", "5"])
        try await f.tick()
        // No key is left.
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.responses, f.queue.keys.responseBytes)).int == 0)
        try await f.expectOrder()
    }

    @Test("the response of an expired job is not counted for a later job of its id, which has none") func reusedID()
        async throws
    {
        let f = try await bench(10_000)
        try await answer("1", 100, f)
        // No tick has come since.
        try await f.redis.send(Command("DEL", f.queue.keys.job("1")))
        try await f.push(#"{"id":"1","url":"http://h/"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await f.queue.keptResponses().bytes == 0)
        try await f.expectOrder()
    }

    @Test("the response of an expired job is not counted after a removal that stops the next push of its id")
    func removedAfterItsExpiry() async throws {
        let f = try await bench(10_000)
        try await answer("1", 100, f)
        // No tick has come since.
        try await f.redis.send(Command("DEL", f.queue.keys.job("1")))
        try await f.push(#"{"id":"1","url":"http://h/"}"#)
        try await f.queue.request(.removed, of: ["1"])
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.keptResponses().bytes == 0)
        try await f.expectOrder()
    }

    @Test("a job that fails without a response shows no earlier response, also not in a later reply")
    func stale() async throws {
        let f = try await bench(10_000)
        try await answer("1", 100, f)
        let again = try await claim("1", f)
        #expect(again.hasResponse)
        let end = RunEnd(
            again.run, .failed(Failure(.connect, "no"), retryable: true, received: 0), hadResponse: again.hasResponse)
        _ = try await f.queue.settle([end], worker: f.worker, next: [])
        #expect(try await f.queue.keptResponses().bytes == 0)
        let job = try #require(try await f.queue.job("1"))
        #expect(job.state == .failed && StoredResponse(hash: job.fields) == nil && job["status"] ?? "" == "")
        try await f.push(
            #"{"id":"1","kind":"request","url":"http://h/","at":1763712000000,"reply_to":"late"}"#)
        #expect(try await f.claim() == nil)
        let reply = try #require(try await f.redis.send(Command("LPOP", "haul:{default}:reply:late")).bytes)
        let event = try #require(Event(reply))
        #expect(event.kind == .failed && event.status == nil && event.responseBody == nil)
        try await f.expectOrder()
    }

    @Test("ticks follow a lowered setting, some responses at a time") func lowered() async throws {
        let f = try await bench(100_000)
        for id in 0..<60 { try await answer("\(id)", 100, f) }
        try await f.queue.set(.maxResponsesBytes, to: "250")
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        try await f.tick()
        // 58 responses are dropped, at most 25 of them by one call of a tick.
        let text = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
        let line = try #require(text.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_fcall:calls=") })
        let calls = try #require(Int(line.dropFirst("cmdstat_fcall:calls=".count).prefix { $0 != "," }))
        #expect(calls >= 3)
        #expect(try await f.queue.keptResponses().bytes == 200)
        // A response that is larger than the limit for all is not kept either.
        try await answer("large", 300, f)
        #expect(try await kept(f).isEmpty)
        try await f.expectOrder()
    }

    @Test("a large response drops some of the older ones, and ticks drop the rest") func large() async throws {
        let f = try await bench(6000)
        for id in 0..<60 { try await answer("\(id)", 100, f) }
        try await answer("large", 5950, f)
        #expect(try await kept(f).count == 53)
        for _ in 0..<3 { try await f.tick() }
        #expect(try await kept(f) == ["large"])
        try await f.expectOrder()
    }

    @Test("the inspection finds a wrong count, and repairs it") func mended() async throws {
        let f = try await bench(10_000)
        for id in ["1", "2", "3"] { try await answer(id, 100, f) }
        let sizes = f.queue.keys.responseBytes
        try await f.redis.send(Command("HSET", sizes, "1", "7", "nobody", "5"))
        try await f.redis.send(Command("ZADD", f.queue.keys.responses, 1, "nobody"))
        try await f.redis.send(Command("ZREM", f.queue.keys.responses, "2"))
        let findings = try await Inspection(f.queue).run()
        #expect(Set(findings.map(\.subject)) == ["1", "2", "nobody", sizes], "\(findings)")
        #expect(try await Inspection(f.queue).run(repairing: true).allSatisfy(\.isRepaired))
        _ = try await Inspection(f.queue).run(repairing: true)
        try await f.expectOrder()
        #expect(try await f.queue.keptResponses().bytes == 300)
        #expect(try await kept(f).count == 3)
    }

    @Test(
        "keys of another type stop no job, and limit nothing",
        arguments: ["responses", "response_bytes"])
    func strange(_ key: String) async throws {
        let f = try await bench(10)
        try await f.redis.send(Command("SET", "haul:{default}:" + key, "x"))
        try await answer("1", 100, f)
        try await f.tick()
        #expect(try await f.queue.job("1").flatMap { StoredResponse(hash: $0.fields) } == Self.response(100))
        #expect(try await Inspection(f.queue).run().map(\.subject) == ["haul:{default}:" + key])
        try await f.queue.request(.removed, of: ["1"])
        try await f.tick()
        #expect(try await f.state("1") == nil)
    }

    @Test("a download costs no command for responses") func free() async throws {
        let f = try await bench(10)
        try await f.push(#"{"id":"1","url":"http://h/"}"#)
        let claim = try #require(try await f.claim())
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        try await f.settle(claim, QueueFixture.done)
        let text = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
        #expect(text.contains("cmdstat_hset:") && !text.contains("cmdstat_zrange:"))
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.responseBytes)).int == 0)
    }

    @Test("a job that Redis fails does not answer with the response to an earlier push") func staleResponse()
        async throws
    {
        let f = try await QueueFixture()
        let at = try await f.queue.time()
        let element = #"{"kind":"request","url":"http://h/1","id":"1"}"#
        try await f.push(element)
        var response = Self.response(100)
        response.files = #"[{"file":"a","status":200}]"#
        let settlement = Settlement.responded(response, seconds: 1, unchanged: false)
        try await f.settle(#require(try await f.claim()), settlement)
        let again =
            #"{"kind":"request","url":"http://h/1","id":"1","at":\#(at + 100_000),"delay":1000,"deadline":0.001}"#
        try await f.push(again)
        try await eventually("the deadline to pass") {
            _ = try await f.claim()
            try await f.tick()
            return try await f.state("1") == .failed
        }
        try await f.push(again.replacing("}", with: #","reply_to":"me"}"#))
        #expect(try await f.claim() == nil)
        let reply = try JSON(#require(try await f.redis.send(Command("LPOP", f.queue.keys.reply("me"))).bytes))
        #expect(reply["error"]?.string == "deadline" && reply["status"] == nil && reply["body"] == nil)
        #expect(reply["files"] == nil)
        #expect(try await f.queue.job("1")?["body"] == nil)
        try await f.expectOrder()
    }
}
