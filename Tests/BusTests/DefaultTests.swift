import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite("Defaults of a queue")
struct DefaultTests {
    private func set(_ pairs: [(String, String)], _ f: QueueFixture) async throws {
        for (name, value) in pairs { try await f.redis.send(Command("HSET", "haul:{default}:defaults", name, value)) }
    }

    private func job(_ f: QueueFixture, _ element: String) async throws -> (claim: Claim, job: Job) {
        try await f.push(element)
        let claim = try #require(try await f.claim())
        return (claim, try claim.job())
    }

    @Test("a job gets defaults for the fields and the header names that it lacks, in any letter case")
    func merged() async throws {
        let f = try await QueueFixture()
        try await set(
            [
                ("retries", "2"), ("connections", "3"), ("if_exists", #""rename""#), ("path", #""in/""#),
                ("headers", #"{"Authorization":"a","x-tag":"queue"}"#), ("expect", "[204]"),
            ], f)
        let (claim, job) = try await job(f, #"{"url":"http://h/1","connections":9,"headers":{"X-Tag":"own"}}"#)
        #expect(job.retries == 2 && job.connections == 9 && job.ifExists == .rename && job.path == "in/")
        #expect(
            Set(job.headers.map { "\($0.name)=\($0.value)" }) == ["X-Tag=own", "Authorization=a"], "\(job.headers)")
        // The spec is kept as it was pushed, and the hash has the default path.
        let spec = try await f.redis.send(Command("HGET", f.queue.keys.spec(claim.run.id), "spec")).string
        #expect(spec == #"{"url":"http://h/1","connections":9,"headers":{"X-Tag":"own"}}"#)
        #expect(try await f.queue.job(claim.run.id)?["path"] == "in/")
        // A request gets only the fields that its kind has.
        let (_, request) = try await self.job(f, #"{"kind":"request","id":"r","url":"http://h/1"}"#)
        #expect(request.connections == nil && request.request.expect == [204...204] && request.retries == 2)
        try await f.expectOrder()
    }

    @Test("fields that the claim itself uses have defaults, too") func obeyed() async throws {
        let f = try await QueueFixture()
        try await set([("deadline", "60"), ("meta", #"{"team":7}"#), ("reply_to", #""all""#)], f)
        let (claim, _) = try await job(f, #"{"url":"http://h/1","id":"1"}"#)
        let deadline = try #require(claim.deadline)
        #expect((1...60_000).contains(deadline - claim.clock.milliseconds))
        try await f.settle(claim, QueueFixture.done)
        let reply = try #require(try await f.redis.send(Command("LPOP", "haul:{default}:reply:all")).bytes)
        #expect(String(decoding: reply, as: UTF8.self).contains(#""meta":{"team":7}"#))
        let (own, _) = try await job(f, #"{"url":"http://h/2","id":"2","meta":null,"deadline":9,"reply_to":"me"}"#)
        try await f.settle(own, QueueFixture.done)
        let second = try #require(try await f.redis.send(Command("LPOP", "haul:{default}:reply:me")).bytes)
        #expect(String(decoding: second, as: UTF8.self).contains(#""meta":null"#))
        #expect(try await f.redis.send(Command("LLEN", "haul:{default}:reply:all")).int == 0)
        try await set([("delay", "5")], f)
        try await f.push(#"{"url":"http://h/3","id":"3"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("3") == .scheduled)
        try await f.expectOrder()
    }

    @Test("a changed default applies from the next claim on, also to a job that runs again") func live() async throws {
        let f = try await QueueFixture()
        let (claim, before) = try await job(f, #"{"url":"http://h/1","id":"1"}"#)
        #expect(before.retries == nil && claim.defaults.isEmpty)
        try await set([("retries", "9")], f)
        try await f.settle(claim, .released(why: "shutdown"))
        #expect(try #require(try await f.claim()).job().retries == 9)
        try await f.queue.set(try #require(QueueDefault(name: "retries")), to: nil)
        try await f.push(#"{"url":"http://h/2"}"#)
        #expect(try #require(try await f.claim()).job().retries == nil)
    }

    @Test("an invalid default has no effect, and the inspection reports it") func invalid() async throws {
        let f = try await QueueFixture()
        let wrong = [
            ("retries", "\"2\""), ("connections", "99"), ("url", #""http://h/""#), ("id", #""x""#), ("x", "1"),
            ("headers", #"{"Host":"h"}"#), ("if_exists", "rename"), ("base", #""films/""#), ("deadline", "1,\"w\":2"),
            ("meta", #""\#(String(repeating: "m", count: 4096))""#), ("path", #""../up""#), ("delay", ""),
        ]
        try await set(wrong, f)
        let (claim, job) = try await job(f, #"{"url":"http://h/1","id":"1"}"#)
        #expect(job == Job("http://h/1", id: "1") && claim.deadline == nil)
        try await f.push(#"{"url":"1.bin"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.rejected(limit: 9).count == 1)
        let findings = try await Inspection(f.queue).run()
        #expect(findings.count == wrong.count && findings.allSatisfy { $0.subject == f.queue.keys.defaults })
        #expect(findings.contains { $0.problem.hasPrefix("connections must be a whole number from 1 to 16") })
    }

    @Test("a job keeps only its own header fields if they and the defaults are too many") func many() async throws {
        let f = try await QueueFixture()
        let some = (0..<200).map { #""a\#($0)":"""# }.joined(separator: ",")
        let others = (0..<100).map { #""b\#($0)":"""# }.joined(separator: ",")
        try await set([("headers", "{\(some)}")], f)
        #expect(try await job(f, #"{"url":"http://h/1","headers":{\#(others)}}"#).job.headers.count == 100)
        #expect(try await job(f, #"{"url":"http://h/2","headers":[]}"#).job.headers.count == 200)
    }

    /// The examples of RFC 3986, section 5.4, without references that have another scheme or are empty.
    @Test(
        "a relative url is resolved against the base", .serialized,
        arguments: [
            ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"), ("/g", "http://a/g"),
            ("//g", "http://g"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q#s"), ("g#s", "http://a/b/c/g#s"), ("g?y#s", "http://a/b/c/g?y#s"),
            (";x", "http://a/b/c/;x"), ("g;x?y#s", "http://a/b/c/g;x?y#s"), (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"), ("..", "http://a/b/"), ("../", "http://a/b/"), ("../g", "http://a/b/g"),
            ("../..", "http://a/"), ("../../", "http://a/"), ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"), ("./../g", "http://a/b/g"), ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"), ("g/../h", "http://a/b/c/h"), ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"), ("g#s/../x", "http://a/b/c/g#s/../x"),
        ])
    func resolved(_ reference: String, _ url: String) async throws {
        let f = try await Self.shared.value
        let element = #"{"meta":{"url":"no"}, "\u0075rl" : "\#(reference)" ,"id":"\#(Token.make())"}"#
        try await f.push(element)
        let claim = try #require(try await f.claim(Token.make()))
        #expect(try claim.job().urls == [url])
        #expect(try claim.job().meta == #"{"url":"no"}"#)
    }

    private static let shared = Task {
        let f = try await QueueFixture()
        try await f.redis.send(Command("HSET", "haul:{default}:defaults", "base", #""http://a/b/c/d;p?q""#))
        return f
    }

    @Test("a relative url names the same job as the absolute one, and another base makes another job") func base()
        async throws
    {
        let f = try await QueueFixture()
        try await set([("base", #""https://h/films/""#)], f)
        let (relative, job) = try await job(f, #"{"url":"1.bin"}"#)
        #expect(job.urls == ["https://h/films/1.bin"])
        #expect(try await f.queue.job(relative.run.id)?["url"] == "https://h/films/1.bin")
        try await f.push(#"{"url":"https://h/films/1.bin"}"#)
        #expect(try await f.claim() == nil)
        try await set([("base", #""https://other/""#)], f)
        #expect(try await self.job(f, #"{"url":"1.bin"}"#).claim.run.id != relative.run.id)
        for url in ["ftp://h/x", "mailto:x", "", "a b", "http:x"] {
            try await f.push(#"{"url":"\#(url)"}"#)
            #expect(try await f.claim() == nil)
        }
        #expect(try await f.queue.rejected(limit: 9).count == 5)
        try await f.expectOrder()
    }

    @Test("a push that is kept behind an operation has defaults, too") func behind() async throws {
        let f = try await QueueFixture()
        try await set([("base", #""http://h/""#), ("deadline", "60")], f)
        let (claim, _) = try await job(f, #"{"url":"1","id":"1"}"#)
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick([claim])
        try await f.push(#"{"url":"2","id":"1"}"#)
        #expect(try await f.claim() == nil)
        try await f.settle(claim, .cancelled)
        let next = try #require(try await f.claim())
        #expect(try next.job().urls == ["http://h/2"] && next.deadline != nil)
        try await f.expectOrder()
    }

    @Test("a `defaults` key of another type stops no job") func strange() async throws {
        let f = try await QueueFixture()
        try await f.redis.send(Command("SET", "haul:{default}:defaults", "x"))
        #expect(try await job(f, #"{"url":"http://h/1"}"#).job.retries == nil)
        #expect(try await Inspection(f.queue).run().map(\.subject) == [f.queue.keys.defaults])
    }
}
