import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Jobs are found by their URLs: Lua/urls.lua, Queue+URLs.swift.
@Suite struct URLTests {
    private static let url = "https://user:pass@files.example/a.bin?token=planted&n=1"

    private func ids(_ f: QueueFixture, _ url: String = Self.url) async throws -> [String] {
        try await f.queue.jobs(ofURLs: [url]).ids[url] ?? []
    }

    @Test("a job is found by its whole URL from its push to its removal, with and without an id and a path")
    func life() async throws {
        let f = try await QueueFixture()
        let elements = [
            #"{"url":"\#(Self.url)"}"#, #"{"url":"\#(Self.url)","id":"named"}"#,
            #"{"url":"\#(Self.url)","path":"b.bin"}"#,
            #"{"urls":["http://other.example/","\#(Self.url)"],"id":"mirrored"}"#,
            #"{"kind":"request","id":"asked","url":"\#(Self.url.replacing("/", with: "\\/"))"}"#,
        ]
        for element in elements { try await f.push(element) }
        try await f.push(#"{"url":"https://files.example/a.bin?token=other","id":"other"}"#)
        let waiting = try await ids(f)
        #expect(waiting.count == 5 && Set(waiting).isSuperset(of: ["named", "mirrored", "asked"]))
        var claims: [Claim] = []
        while let claim = try await f.claim() { claims.append(claim) }
        #expect(try await ids(f) == waiting)
        #expect(try await ids(f, "http://other.example/") == ["mirrored"])
        #expect(try await ids(f, "https://files.example/a.bin?token=other") == ["other"])
        #expect(try await ids(f, "https://files.example/a.bin") == [])
        // Neither the query nor the credentials are written anywhere but into the element.
        for key in try await f.server.cli("KEYS", "*").split(separator: "\n") where !key.contains(":spec:") {
            let dump = try await f.redis.send(Command("DUMP", String(key))).bytes ?? []
            #expect(!String(decoding: dump, as: UTF8.self).contains("planted"), "\(key)")
        }
        try await f.expectOrder()
        for claim in claims { try await f.settle(claim, QueueFixture.done) }
        #expect(try await ids(f) == waiting)
        try await f.queue.request(.removed, of: ["named", "mirrored"])
        try await f.tick()
        #expect(try await ids(f) == waiting.filter { !["named", "mirrored"].contains($0) })
        #expect(try await ids(f, "http://other.example/") == [])
        try await f.expectOrder()
    }

    @Test("a newer URL of a job takes the place of the older one") func renewed() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/?v=1","id":"a"}"#)
        _ = try await f.claim()
        try await f.push(#"{"url":"http://h/?v=2","id":"a"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await ids(f, "http://h/?v=1") == [])
        #expect(try await ids(f, "http://h/?v=2") == ["a"])
        try await f.expectOrder()
    }

    @Test("nothing of the index is left when jobs have expired") func expired() async throws {
        let f = try await QueueFixture { $0.keepCompleted = .seconds(3) }
        for id in ["a", "b", "c"] {
            try await f.push(#"{"url":"http://h/?same","id":"\#(id)"}"#)
            try await f.settle(#require(try await f.claim()), QueueFixture.done)
        }
        #expect(try await ids(f, "http://h/?same") == ["a", "b", "c"])
        try await eventually("the index to be empty") {
            try await f.tick()
            return try await f.server.cli("KEYS", "*url*").isEmpty
        }
        #expect(try await f.queue.jobs(["a", "b", "c"]).isEmpty)
    }

    @Test("entries whose jobs expired while no worker was there are removed, and a missing one is repaired")
    func swept() async throws {
        let f = try await QueueFixture()
        for id in ["a", "b"] {
            try await f.push(#"{"url":"http://h/?\#(id)","id":"\#(id)"}"#)
            try await f.settle(#require(try await f.claim()), QueueFixture.done)
        }
        try await f.redis.send(Command("DEL", f.queue.keys.job("a")))
        try await eventually("the entry to be removed") {
            try await f.tick()
            return try await f.server.cli("HLEN", "haul:{default}:urls") == "1"
        }
        try await f.redis.send(Command("DEL", f.queue.keys.prefix + "urls"))
        #expect(try await ids(f, "http://h/?b") == [])
        let findings = try await Inspection(f.queue).run(repairing: true)
        #expect(findings.contains { $0.subject == "b" && $0.isRepaired })
        #expect(try await ids(f, "http://h/?b") == ["b"])
    }

    @Test("a job is found by its URL among 100,000 that have ended and 100,000 that wait")
    func many() async throws {
        let f = try await QueueFixture()
        try await f.redis.send(Command("CONFIG", "SET", "save", ""))
        // Ended jobs, as the functions write them.
        let script = """
            for n = 1, 100000 do
              local id = 'job-' .. n
              local digest = string.sub(redis.sha1hex('http://h/?' .. n .. '\\n'), 1, 16)
              redis.call('HSET', KEYS[1] .. 'urls', digest, id)
              redis.call('HSET', KEYS[1] .. 'job:' .. id, 'state', 'completed', 'url', 'http://h/?[masked]', 'url_digests', digest)
              redis.call('ZADD', KEYS[1] .. 'completed', 1763712000000 + n, id)
            end
            """
        try await f.redis.send(Command("EVAL", script, 1, f.queue.keys.prefix), timeout: .seconds(60))
        /// The number of commands that find a job, with those of the functions.
        func commands(_ url: String, _ id: String) async throws -> Int {
            let before = try await f.server.statistic("total_commands_processed")
            #expect(try await ids(f, url) == [id])
            return try await f.server.statistic("total_commands_processed") - before
        }
        let ended = try await commands("http://h/?77777", "job-77777")
        for start in stride(from: 0, to: 100_000, by: 500) {
            let elements = (start..<start + 500).map { #"{"url":"http://w/?\#($0)","id":"wait-\#($0)"}"# }
            try await f.redis.send(Command(arguments: ["LPUSH", f.queue.keys.jobs] + elements))
        }
        let waiting = try await commands("http://w/?4711", "wait-4711")
        print("URLTests: \(ended) commands among ended jobs, \(waiting) among 100,000 waiting ones as well")
        #expect(ended < 100)
        #expect(waiting < 1000)
    }

    @Test("a further job of a URL is found for more than a year after each of its pushes") func renewedTime()
        async throws
    {
        let f = try await QueueFixture()
        let element = #"{"url":"http://h/?same","id":"b"}"#
        try await f.push(#"{"url":"http://h/?same","id":"a"}"#)
        try await f.settle(#require(try await f.claim()), QueueFixture.done)
        try await f.push(element)
        try await f.settle(#require(try await f.claim()), QueueFixture.done)
        let keys = try await f.server.cli("KEYS", "*:url:*").split(separator: "\n").map(String.init)
        let key = try #require(keys.first)
        let year = 366 * 86_400_000
        #expect(try await f.redis.send(Command("PTTL", key)).int ?? 0 > year)
        try await f.redis.send(Command("PEXPIRE", key, 1000))
        try await f.push(element)
        #expect(try await f.claim() != nil)
        #expect(try await f.redis.send(Command("PTTL", key)).int ?? 0 > year)
    }
}
