import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Searches for a few jobs among many in the queue.
@Suite struct WaitingTests {
    @Test("an id that is found without parsing the element is the id that parsing finds")
    func quickIDs() throws {
        let odd = [
            #"{"url":"http://h/","id":"a"}"#, #" { "id" : "a" , "url":"http://h/"}"#,
            #"{"url":"http://h/","meta":{"id":"b"},"id":"a"}"#,
            #"{"url":"http://h/","meta":["id",":","b"],"path":"id","id":"a"}"#,
            #"{"url":"http://h/","headers":{"X":"\"id\":\"b\""},"id":"a"}"#,
            #"{"url":"http://h/","path":"{","id":"a","meta":"}"}"#, #"{"id":"a"}"#, #"{"url":"http://h/"}"#,
            #"{"id":"a","id":"b"}"#,
            #"{"id":7}"#, #"{"id""#, #"{"id":"a"#, #"["id","a"]"#, "", #"{"url":"http://h/","\u0069d":"b","id":"a"}"#,
        ]
        var many = 0
        for text in odd + ValidElements.all {
            guard let quick = ElementID.quick(Array(text.utf8)) else { continue }
            many += 1
            guard let json = try? JSON(text) else { continue }
            #expect(json["id"]?.string == quick, "\(text)")
        }
        #expect(many >= 7)
    }

    @Test("an element waits under the id that its claim gives it, however it is written") func sameID() async throws {
        let f = try await QueueFixture()
        try await f.redis.send(Command("HSET", f.queue.keys.defaults, "base", #""https://h/films/1""#))
        let odd = [
            #"{"kind": "request", "url": "https://h/", "query": {"a": 1}}"#,
            #" {"url":"http://h/a", "headers":{"A":"b"}} "#,
            #"{"url":"2.bin"}"#, #"{"url":"../2.bin?a=1","path":"b"}"#, #"{"url":"//other"}"#, #"{ "url" : "?q" }"#,
            #"{"kind":"request", "url":"\u002fx/./y/"}"#, #"{"url":"a/../..","headers":{"A": "b"}}"#,
        ]
        var claimed = 0
        for element in odd + ValidElements.all where (try JSON(element))["id"] == nil {
            // The last job may have pushed a webhook.
            try await f.redis.send(Command("DEL", f.queue.keys.jobs))
            try await f.push(element)
            let ids = try await f.queue.listed(in: .queued, from: 0, limit: 2).map(\.id)
            let found = try await f.queue.waiting(for: Set(ids)).keys
            // A repeated `at` starts nothing.
            guard let claim = try await f.claim() else { continue }
            claimed += 1
            #expect(ids == [claim.run.id] && Array(found) == ids, "\(element)")
            try await f.settle(claim, QueueFixture.done)
        }
        #expect(claimed > 60)
    }

    @Test("a job with a relative URL is found by its whole URL before its claim") func relative() async throws {
        let f = try await QueueFixture()
        try await f.redis.send(Command("HSET", f.queue.keys.defaults, "base", #""https://h/films/""#))
        for url in ["1.bin", "2.bin", "https://h/films/2.bin"] { try await f.push(#"{"url":"\#(url)"}"#) }
        let url = "https://h/films/1.bin"
        #expect(try await f.queue.jobs(ofURLs: [url]).ids[url] == [Queue.digest(ofURL: url)])
    }

    @Test("jobs with a hash, and jobs whose id must be computed, are read although no element matches")
    func known() async throws {
        let fixture = try await QueueFixture()
        for number in 0..<4 { try await fixture.push(#"{"url":"http://h/\#(number)","id":"j\#(number)"}"#) }
        func lists() async throws -> WaitingLists { try await fixture.queue.waitingLists() }
        let none = try await fixture.queue.waiting(in: lists(), from: 0, limit: 10) { _ in false }
        #expect(none.read == 4 && none.jobs.isEmpty)
        let one = try await fixture.queue.waiting(in: lists(), from: 0, limit: 10) { $0.contains(UInt8(ascii: "2")) }
        #expect(one.jobs.map { $0.job.id } == ["j2"] && one.jobs.map { $0.position } == [2])
        try await fixture.push("no job at all")
        try await fixture.push(#"{"url":"http://h/5"}"#)
        let unnamed = try await fixture.queue.waiting(in: lists(), from: 3, limit: 10) { _ in false }
        #expect(unnamed.read == 3 && unnamed.jobs.map { $0.position } == [1, 2])
        try await fixture.redis.send(Command("HSET", fixture.queue.keys.job("j1"), "file", "f"))
        let known = try await fixture.queue.waiting(in: lists(), from: 0, limit: 4) { _ in false }
        #expect(known.jobs.map { $0.job.id } == ["j0", "j1", "j2", "j3"])
    }
}
