import Foundation
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Ends, replies and the responses in them are short calls and take bounded memory, however many and large they are.
@Suite(.serialized) struct ReplyBoundTests {
    /// The bytes of all keys. The server's `used_memory` also counts the buffers of its clients and its scripts.
    private func bytesOfKeys(_ f: QueueFixture) async throws -> Int {
        let script = """
            local sum = 0
            for _, key in ipairs(redis.call('KEYS', '*')) do
                sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0)
            end
            return sum
            """
        return try #require(try await f.redis.send(Command("EVAL", script, 0)).int)
    }

    /// A response whose body is kept in base 64.
    private static func response(_ bytes: Int) -> StoredResponse {
        StoredResponse(
            status: 200, headers: [], body: Array(repeating: 255, count: bytes), requestDigest: "q", method: "GET",
            validated: 5)
    }

    private func answer(_ f: QueueFixture, _ id: String, _ bytes: Int, names: Int = 0) async throws {
        try await f.push([#"{"id":"\#(id)","kind":"request","url":"http://h/"}"#])
        let claim = try #require(try await f.claim())
        if names > 0 {
            try await f.push((0..<names).map { #"{"id":"\#(id)","url":"http://h/","reply_to":"\#(id)-\#($0)"}"# })
            while try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 { _ = try await f.claim() }
        }
        try await f.settle(claim, .responded(Self.response(bytes), seconds: 1, unchanged: false))
    }

    /// A job that runs, in 16 batches with 64 reply lists each, and with 64 of its own.
    private func claimCrowded(_ f: QueueFixture, _ id: String) async throws -> Claim {
        func element(_ batch: Int, _ list: Int) -> String {
            #"{"id":"\#(id)","url":"http://h/","reply_to":"own\#(list)","batch":{"name":"\#(id)-\#(batch)","size":1,"#
                + #""reply_to":"r\#(batch)-\#(list)"}}"#
        }
        try await f.push([element(0, 0)])
        let claim = try #require(try await f.claim())
        try await f.push((0..<1024).map { element($0 / 64, $0 % 64) })
        while try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 { _ = try await f.claim() }
        return claim
    }

    /// What the reply lists of `claimCrowded` have got: the events of each list.
    private func crowdedReplies(_ f: QueueFixture) async throws -> [String: [String]] {
        var replies: [String: [String]] = [:]
        for list in 0..<64 {
            for name in ["own\(list)"] + (0..<16).map({ "r\($0)-\(list)" }) {
                let found = try await f.redis.send(Command("LRANGE", f.queue.keys.reply(name), 0, -1)).array ?? []
                replies[name] = found.compactMap { $0.bytes.flatMap { Event($0)?.name } }
            }
        }
        return replies
    }

    @Test(
        "the end of a job in 16 batches with 64 reply lists each is several short calls",
        arguments: RedisServer.Kind.installed, ["completed", "cancelled", "many runs"])
    func crowded(server: RedisServer.Kind, end: String) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        var runs = [try await claimCrowded(f, "a")]
        var costs: [Double] = []
        switch end {
        case "completed":
            costs.append(try await meter.cost { try await f.settle(runs[0], QueueFixture.done) })
        case "cancelled":
            try await f.settle(runs[0], .released(why: "test"))
            try await f.queue.request(.cancelled, of: ["a"])
        default:
            // As many runs as one settle ends, with 64 reply lists each.
            for index in 1..<32 {
                try await f.push([#"{"id":"j\#(index)","url":"http://h/","reply_to":"own0"}"#])
                runs.append(try #require(try await f.claim()))
                try await f.push(
                    (1..<64).map { #"{"id":"j\#(index)","url":"http://h/","reply_to":"own\#($0)"}"# })
                let batches = (0..<16).map { "{\"name\":\"j\(index)-\($0)\",\"size\":1,\"reply_to\":\"ends\"}" }
                try await f.push(batches.map { #"{"id":"j\#(index)","url":"http://h/","batch":\#($0)}"# })
                while try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 {
                    _ = try await f.claim()
                }
            }
            var ends = runs.map { RunEnd($0.run, QueueFixture.done) }[...]
            while !ends.isEmpty {
                var settled = 0
                costs.append(
                    try await meter.cost {
                        settled = try await f.queue.settle(Array(ends), worker: f.worker, next: []).isOurs.count
                    })
                ends = ends.dropFirst(settled)
            }
        }
        costs += try await meter.ticks(limit: 60) {
            let isAsked = try await f.redis.send(Command("EXISTS", f.queue.keys.want)).int == 1
            let isLeft = try await f.redis.send(Command("EXISTS", f.queue.keys[.undeliveredReplies])).int == 1
            return !isAsked && !isLeft
        }
        meter.expectShort("\(server.rawValue): \(end) with many reply lists", costs)
        #expect(costs.max() ?? 0 <= meter.limit, "\(costs)")
        let state = end == "cancelled" ? "cancelled" : "completed"
        for (name, events) in try await crowdedReplies(f) {
            let expected = name.hasPrefix("own") ? Array(repeating: state, count: runs.count) : ["batch_ended"]
            #expect(events == expected, "\(name): \(events)")
        }
        let ended = try await f.redis.send(Command("LLEN", f.queue.keys.reply("ends"))).int
        #expect(ended == (runs.count - 1) * 16)
        try await f.expectOrder()
    }

    /// Redis takes some 2 ms to copy a MiB of one value, and a settle of a response copies it several times. So the calls
    /// of large responses are longer (Sources/Bus/Settle/README.md), but never by the number of their reply lists.
    @Test(
        "a response for 64 reply lists is several short calls", arguments: RedisServer.Kind.installed,
        [(bytes: 64 << 10, factor: 1.0), (1 << 20, 10)])
    func largeReplies(server: RedisServer.Kind, _ response: (bytes: Int, factor: Double)) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        try await f.push([#"{"id":"l","kind":"request","url":"http://h/"}"#])
        let claim = try #require(try await f.claim())
        try await f.push((0..<64).map { #"{"id":"l","url":"http://h/","reply_to":"l-\#($0)"}"# })
        while try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 { _ = try await f.claim() }
        let end = Settlement.responded(Self.response(response.bytes), seconds: 1, unchanged: false)
        var costs = [try await meter.cost { try await f.settle(claim, end) }]
        costs += try await meter.ticks(limit: 60) {
            try await f.redis.send(Command("EXISTS", f.queue.keys[.undeliveredReplies])).int == 0
        }
        print("\(server.rawValue): \(response.bytes) bytes to 64 reply lists: \(costs.map { Int($0) }) µs")
        #expect(costs.max() ?? 0 <= meter.limit * response.factor, "\(costs)")
        var full = 0
        for name in 0..<64 {
            let found = try await f.redis.send(Command("LRANGE", f.queue.keys.reply("l-\(name)"), 0, -1)).array ?? []
            let events = found.compactMap { $0.bytes.flatMap { Event($0) } }
            #expect(events.map(\.name) == ["completed"], "\(name)")
            full += events.first?.responseBody == nil ? 0 : 1
        }
        // Base 64 has a third more bytes.
        #expect(full == Settlement.maxReplies / (response.bytes * 4 / 3 + 600), "\(full)")
        try await f.expectOrder()
    }

    @Test(
        "repeated pushes of a job with a large response cost little, and grow memory little",
        arguments: RedisServer.Kind.installed)
    func duplicates(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        for (id, bytes) in [("large", 1 << 20), ("medium", 12 << 10), ("small", 100)] {
            try await answer(f, id, bytes)
            // As text, each byte of the body takes six in JSON.
            let body = String(repeating: "\u{1}", count: bytes)
            try await f.redis.send(Command("HDEL", f.queue.keys.job(id), "body_base64"))
            try await f.redis.send(Command("HSET", f.queue.keys.job(id), "body", body))
            let before = try await bytesOfKeys(f)
            try await f.push(
                (0..<60).map { #"{"id":"\#(id)","url":"http://h/","at":1700000000000,"reply_to":"\#(id)-\#($0)"}"# })
            meter.expectShort("answers to a repeated push, \(id)", try await meter.claimAll())
            let grown = try await bytesOfKeys(f) - before
            #expect(grown < 60 * 6 * (24 << 10), "\(id): \(grown) bytes")
            let reply = try #require(try await f.redis.send(Command("RPOP", f.queue.keys.reply("\(id)-59"))).bytes)
            let event = try #require(Event(reply))
            #expect(event.kind == .completed && event.status == 200)
            #expect(event.responseBody?.count == (id == "large" ? nil : bytes))
            #expect(event["response_dropped"]?.bool == (id == "large" ? true : nil))
        }
    }

    @Test("reply lists keep no more bytes of responses than the setting allows", arguments: RedisServer.Kind.installed)
    func replies(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let most = 750_000
        try await f.queue.set(.maxRepliesBytes, to: "\(most)")
        try await f.queue.set(.maxResponsesBytes, to: "0")
        func sum() async throws -> Int {
            try await f.redis.send(Command("HGET", f.queue.keys[.replyBytes], "in all")).string.flatMap { Int($0) } ?? 0
        }
        func sizes(_ id: String) async throws -> [Int?] {
            var sizes: [Int?] = []
            for name in 0..<8 {
                let reply = try #require(
                    try await f.redis.send(Command("LINDEX", f.queue.keys.reply("\(id)-\(name)"), 0)).bytes)
                let event = try #require(Event(reply))
                #expect(event["response_dropped"]?.bool == (event.responseBody == nil ? true : nil))
                sizes.append(event.responseBody?.count)
            }
            return sizes
        }
        for id in ["a", "b", "c"] { try await answer(f, id, 50_000, names: 8) }
        // Base 64 has a third more bytes.
        #expect(try await sizes("a").compactMap(\.self).count == 8)
        #expect(try await sizes("b").compactMap(\.self).count == 3)
        #expect(try await sizes("c").compactMap(\.self).isEmpty)
        #expect(try await sum() <= most)
        // Redis allocates up to a quarter more than the text of an answer needs.
        let bytes = try await bytesOfKeys(f)
        #expect(bytes < most * 4 / 3, "\(bytes)")
        // A consumer removes its events. Haul finds that out by itself.
        for name in 0..<8 { try await f.redis.send(Command("RPOP", f.queue.keys.reply("a-\(name)"))) }
        for _ in 0..<40 where try await sum() > most / 3 { try await f.tick() }
        #expect(try await sum() <= most / 3)
        try await answer(f, "d", 50_000, names: 8)
        #expect(try await sizes("d").compactMap(\.self).count >= 7)
        try await f.expectOrder()
        // Without any answer left, no key is left.
        for id in ["a", "b", "c", "d"] {
            for name in 0..<8 { try await f.redis.send(Command("DEL", f.queue.keys.reply("\(id)-\(name)"))) }
        }
        for _ in 0..<40 where try await sum() > 0 { try await f.tick() }
        try await f.tick()
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys[.replyBytes])).int == 0)
    }

    @Test("small replies that come after large ones do not make their list seem small")
    func newest() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.maxResponsesBytes, to: "0")
        func sum() async throws -> Int {
            try await f.redis.send(Command("HGET", f.queue.keys[.replyBytes], "in all")).string.flatMap { Int($0) } ?? 0
        }
        for number in 0..<20 {
            try await f.push([#"{"id":"large-\#(number)","kind":"request","url":"http://h/","reply_to":"r"}"#])
            let claim = try #require(try await f.claim())
            try await f.settle(claim, .responded(Self.response(50_000), seconds: 1, unchanged: false))
        }
        let large = try await sum()
        #expect(large > 20 * 50_000)
        let meta = String(repeating: "m", count: 2000)
        for number in 0..<30 {
            try await f.push([#"{"id":"small-\#(number)","url":"http://h/","reply_to":"r","meta":"\#(meta)"}"#])
            try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        }
        for _ in 0..<10 { try await f.tick() }
        #expect(try await sum() == large)
    }

    @Test("a published event has no large response, and the reply has it") func published() async throws {
        let f = try await QueueFixture()
        let events = f.queue.events()
        let iterator = events.makeAsyncIterator()
        _ = await iterator.next()
        for (id, bytes) in [("s", 10_000), ("l", 100_000)] {
            try await f.push([#"{"id":"\#(id)","kind":"request","url":"http://h/","reply_to":"\#(id)"}"#])
            let claim = try #require(try await f.claim())
            try await f.settle(claim, .responded(Self.response(bytes), seconds: 1, unchanged: false))
            let reply = try #require(try await f.redis.send(Command("RPOP", f.queue.keys.reply(id))).bytes)
            #expect(Event(reply)?.responseBody?.count == bytes)
            #expect(try await f.queue.job(id).flatMap { StoredResponse(hash: $0.fields) }?.body.count == bytes)
            guard case .message(_, let text)? = await iterator.next() else { throw NoEvent() }
            let event = try #require(Event(text))
            #expect(event.id == id && event.status == 200 && event.responseBody?.count == (id == "s" ? bytes : nil))
            #expect(event["response_dropped"]?.bool == (id == "s" ? nil : true))
        }
    }

    private struct NoEvent: Error {}

    @Test("at maxmemory runs still end, without their responses", arguments: RedisServer.Kind.installed)
    func memory(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        try await f.push([#"{"id":"r","kind":"request","url":"http://h/","reply_to":"a"}"#])
        let claim = try #require(try await f.claim())
        try await f.redis.send(Command("CONFIG", "SET", "maxmemory", 1_000_000))
        try await f.settle(claim, .responded(Self.response(1 << 20), seconds: 1, unchanged: false))
        for key in [f.queue.keys.job("r"), f.queue.keys.reply("a")] {
            #expect(try await f.redis.send(Command("MEMORY", "USAGE", key)).int ?? .max < 4096)
        }
        #expect(try await f.state("r") == .completed)
        #expect(try await f.queue.job("r")?.droppedResponse != nil)
        let reply = try #require(try await f.redis.send(Command("RPOP", f.queue.keys.reply("a"))).bytes)
        #expect(Event(reply)?.status == 200 && Event(reply)?["response_dropped"]?.bool == true)
        try await f.redis.send(Command("CONFIG", "SET", "maxmemory", 0))
        try await f.expectOrder()
    }

    @Test(
        "announcing many completed jobs is short calls, whatever their responses have",
        arguments: RedisServer.Kind.installed, [0, 65_536])
    func announcements(server: RedisServer.Kind, bytes: Int) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let count = 100
        try await f.push(
            (0..<count).map { #"{"kind":"request","id":"j\#($0)","url":"http://h/","reply_to":"r\#($0)"}"# })
        for _ in 0..<count {
            let claim = try #require(try await f.claim())
            let response = StoredResponse(
                status: 200, headers: [], body: Array(repeating: 0x61, count: bytes), requestDigest: "d", method: "GET",
                validated: 1)
            let end = RunEnd(
                claim.run, .responded(response, seconds: 1, unchanged: false), awaitsReplicas: true)
            _ = try await f.queue.settle([end], worker: f.worker, next: [])
        }
        var costs: [Double] = []
        while true {
            let range = Command("ZRANGE", f.queue.keys.unannounced, 0, -1, "WITHSCORES")
            let waiting = try await f.redis.send(range).array ?? []
            if waiting.isEmpty { break }
            let arguments: [any RedisArgument] =
                [Token.make()] + f.queue.policy.retention + waiting.compactMap(\.string)
            costs.append(
                try await meter.cost {
                    _ = try await f.redis.run(
                        f.queue.functions.announce, keys: f.queue.keys.functionKeys(for: "-"), arguments: arguments)
                })
        }
        meter.expectShort("\(server.rawValue): announcements of \(bytes) bytes", costs)
        #expect(costs.count >= 4)
        for n in 0..<count { #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("r\(n)"))).int == 1) }
    }
}
