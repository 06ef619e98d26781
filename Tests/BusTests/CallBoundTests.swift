import Foundation
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Redis serves one call at a time, and a producer needs nothing but LPUSH. So whatever is pushed, and whatever state
/// it meets, no call may take longer than `Meter.limit`, nor more than in proportion to the length of what was pushed.
@Suite("No call of Redis is long or grows memory, whatever producers push", .serialized)
struct CallBoundTests {
    /// With HAUL_EXACT_BOUNDS, for a quiet machine: all elements, the full states, and the bound itself. Otherwise a
    /// sample of the elements, smaller states, and six times the bound, because a busy machine makes each call slower.
    /// What is quadratic or unbounded exceeds it tenfold in the small states, too.
    private static let isExact = ProcessInfo.processInfo.environment["HAUL_EXACT_BOUNDS"] != nil

    /// Measures what calls cost a server in CPU time, so that other programs on the machine do not count.
    private struct Meter {
        /// 2 ms, on a machine as fast as the one for which the bounds of the functions were chosen.
        let limit: Double
        private let redis: Redis
        private let overhead: Double

        init(_ redis: Redis) async throws {
            self.redis = redis
            let loop = Command("EVAL", "local n = 0 for i = 1, 100000 do n = n + i end return n", 0)
            var (reference, nothing) = (Double.infinity, Double.infinity)
            for _ in 0..<30 {
                reference = min(reference, try await Self.cost(redis) { try await redis.send(loop) })
                nothing = min(nothing, try await Self.cost(redis) {})
            }
            overhead = nothing
            // The loop took 750 µs there.
            limit = 2000 * max(1, (reference - nothing) / 750) * (CallBoundTests.isExact ? 1 : 6)
        }

        /// The CPU time of the server for these calls, in µs.
        func cost(_ calls: () async throws -> Void) async throws -> Double {
            try await Self.cost(redis, calls) - overhead
        }

        private static func cost(_ redis: Redis, _ calls: () async throws -> Void) async throws -> Double {
            let before = try await time(redis)
            try await calls()
            return try await time(redis) - before
        }

        private static func time(_ redis: Redis) async throws -> Double {
            let text = try await redis.send(Command("INFO", "cpu")).string ?? ""
            return text.split(separator: "\r\n").reduce(0) { sum, line in
                let parts = line.split(separator: ":")
                guard parts.count == 2, parts[0].hasSuffix("_main_thread") else { return sum }
                return sum + (Double(parts[1]) ?? 0) * 1e6
            }
        }
    }

    // MARK: Elements

    /// Elements of about `length` bytes. Each is almost valid, in one field at its full length, or is what costs the
    /// readers most.
    private static func elements(_ length: Int) -> [(name: String, element: String)] {
        var elements: [(String, String)] = []
        func add(_ name: String, _ members: String) { elements.append((name, "{\"id\":\"x\",\(members)}")) }
        func fill(_ unit: String, _ size: Int) -> String {
            String(repeating: unit, count: max(1, size / unit.utf8.count))
        }
        func list(_ unit: String, _ size: Int) -> String {
            "[" + Array(repeating: unit, count: max(1, size / (unit.utf8.count + 1))).joined(separator: ",") + "]"
        }
        func object(_ size: Int, name: (Int) -> String, value: String = "1") -> String {
            var (members, used) = ([String](), 0)
            while used < size {
                members.append("\"\(name(members.count))\":\(value)")
                used += members.last!.utf8.count + 1
            }
            return "{" + members.joined(separator: ",") + "}"
        }
        let url = #""url":"http://h/""#
        let (long, half) = (min(length, 8150), length / 2)
        // One repeated piece in each place of a URL, with an end that makes it invalid or not.
        for unit in ["a", ".", ":", "@", "[", "]", "%", "é", "0", "#", "?", "/", "../", "a@", ":.", "0:", "::", "%25"] {
            for (start, end) in [
                ("http://", ""), ("http://", " "), ("http://", "@h/"), ("http://[", "]/"), ("http://[:", ":]/"),
                ("http://[%", "]/"), ("http://h/", " "), ("http://h:", "/"), ("", ""), ("a://", ""),
            ] {
                let text = start + fill(unit, long) + end
                add("url \(start)\(unit)…\(end)", "\"url\":\"\(text)\"")
            }
            add("urls \(unit)", "\"urls\":" + list("\"http://\(fill(unit, half - 20)) \"", length))
        }
        for field in JobField.all where !["url", "urls", "id", "kind"].contains(field.name) {
            let kind = field.kinds.contains(.download) ? "download" : field.kinds.map(\.rawValue).min()!
            let rest = "\"kind\":\"\(kind)\",\(url),\"\(field.name)\":"
            for unit in [
                "a", "a/", "/.", "./", "a/../", "A", "=", "0", " ", "x:", "中", "😀", "中aя😀", "\\\"", "\\u0001", "\\\\",
            ] {
                // Most texts of a field may be shorter than the element.
                for size in Set([length, min(length, 4090), min(length, 250)]) {
                    add("\(field.name) \(unit) \(size)", rest + "\"\(fill(unit, size))\"")
                }
            }
            let bare = min(length, 6000)
            for item in ["0", "\"\"", "\"abcdef\"", "[]", "{}", "-0.5e10", "{\"file\":\"a/b\"}", "\"100-200\""] {
                add("\(field.name) [\(item)]", rest + list(item, bare))
            }
            add("\(field.name) nested", rest + list(fill("[", 60) + fill("]", 60), bare))
            add("\(field.name) names", rest + object(length, name: { "x\($0)" }, value: "\"y\""))
            add("\(field.name) 250 names", rest + object(min(length, 2000), name: { "x\($0)" }, value: "\"y\""))
            add("\(field.name) escaped names", rest + object(length, name: { "\\u006d\($0)" }))
            add("\(field.name) names of meta", rest + list("{\"meta\":0}", length) + ",\"meta\":1")
        }
        add("files", "\"kind\":\"upload\",\(url),\"files\":" + list("{\"file\":\"\(fill("a/", 3900))a\"}", length))
        add(
            "types",
            "\"kind\":\"upload\",\(url),\"files\":" + list("{\"file\":\"a\",\"type\":\"a/a\(fill(" ", 250))\"}", length)
        )
        add("unknown fields", url + "," + object(length, name: { "f\($0)" }).dropFirst().dropLast())
        add(
            "many escaped names before meta",
            "\"t\":" + object(length, name: { "m\\u0065tb\($0)" }) + ",\"m\\u0065ta\":1,\(url)")
        add("a kind", "\"kind\":\"\(fill("a", length))\"")
        add("relative", "\"url\":\"\(fill("a/", long - 20))b\"")
        add("relative dots", "\"url\":\"\(fill("a/../", long - 20))b\"")
        elements += [
            ("blanks", "{" + fill(" \t\r\n", min(length, 6000)) + "\(url)}"), ("quotes", "{" + fill("\"", length)),
            ("backslashes", "{\"" + fill("\\", length)), ("open", fill("[", length)),
            ("objects", fill("{\"a\":", length)),
            ("controls", "{\"a\":\"" + fill("\u{1}", length) + "\"}"), ("no JSON", fill("é", length)),
        ]
        return elements
    }

    @Test(
        "an element of any shape costs at most 2 ms, in proportion to its length", arguments: RedisServer.Kind.installed
    )
    func elements(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        let defaults = Command(
            "HSET", f.queue.keys.defaults, "base", "\"http://h/a/b/c\"", "meta", list(1300), "headers", "{\"a\":\"b\"}")
        func cost(_ element: String, repeats: Int) async throws -> Double {
            var least = Double.infinity
            for _ in 0..<repeats {
                try await f.redis.send(Command("FLUSHALL"))
                _ = try await f.queue.register(f.worker, fields: [], known: [])
                try await f.redis.send(defaults)
                try await f.redis.send(Command("LPUSH", f.queue.keys.jobs, String(element.utf8.prefix(16384))!))
                least = min(least, try await meter.cost { _ = try await f.queue.claim(f.worker, token: Token.make()) })
            }
            return least
        }
        let (whole, half) = (Self.elements(15_500), Self.elements(7750))
        var worst = (cost: 0.0, name: "")
        for (index, (name, element)) in whole.enumerated() where Self.isExact || index.isMultiple(of: 17) {
            var found = try await cost(element, repeats: 1)
            // Once is enough for what costs little.
            if found > meter.limit / 3 {
                found = min(found, try await cost(element, repeats: 8))
                let before = try await cost(half[index].element, repeats: 8)
                #expect(found <= meter.limit, "\(name): \(found) µs of \(meter.limit)")
                #expect(
                    found <= 2.5 * before + (Self.isExact ? 200 : meter.limit / 4),
                    "\(name): \(found) µs, and \(before) µs for half of it")
            }
            if found > worst.cost { worst = (found, name) }
        }
        print(
            "\(server.rawValue): of \(whole.count) elements the worst is \(worst.name): \(Int(worst.cost)) µs of \(Int(meter.limit))"
        )
    }

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

    private func list(_ count: Int) -> String { "[" + Array(repeating: "0", count: count).joined(separator: ",") + "]" }

    // MARK: Kept states

    /// Makes calls of one sort, and checks what they cost. A few may cost more, because the machine's caches are
    /// shared.
    private func expectShort(_ what: String, _ meter: Meter, _ costs: [Double]) {
        let sorted = costs.sorted()
        let high = sorted.isEmpty ? 0 : sorted[sorted.count * 9 / 10]
        print(
            "\(what): \(sorted.count) calls, median \(Int(sorted.isEmpty ? 0 : sorted[sorted.count / 2])) µs, 90 % below \(Int(high)) of \(Int(meter.limit))"
        )
        #expect(high <= meter.limit, "\(what): 90 % of \(sorted.count) calls take up to \(high) µs of \(meter.limit)")
    }

    private func push(_ f: QueueFixture, _ elements: [String]) async throws {
        for page in elements.chunks(ofCount: 500) {
            try await f.redis.send(Command(arguments: ["LPUSH", f.queue.keys.jobs] + page))
        }
    }

    /// Claims until the queue is empty or `most` calls were made. Returns what each call cost.
    private func claimAll(_ f: QueueFixture, _ meter: Meter, limit: Int = .max) async throws -> [Double] {
        var costs: [Double] = []
        while costs.count < limit, try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 {
            costs.append(try await meter.cost { _ = try await f.queue.claim(f.worker, token: Token.make()) })
        }
        return costs
    }

    /// Makes single calls of ticks until `isDone`. Returns what each call cost.
    private func ticks(
        _ f: QueueFixture, _ meter: Meter, limit: Int, until isDone: () async throws -> Bool
    ) async throws -> [Double] {
        var costs: [Double] = []
        while costs.count < limit, try await !isDone() {
            var tick = Tick(f.worker, runs: [])
            costs.append(try await meter.cost { _ = try await f.queue.step(&tick) })
        }
        return costs
    }

    @Test(
        "thousands of unknown kinds are bounded, and cost no later call anything",
        arguments: RedisServer.Kind.installed)
    func kinds(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        let names = (0..<(Self.isExact ? 10_000 : 1000)).map { number in
            String("\(number)".map { Character(UnicodeScalar($0.asciiValue! + 49)) })
        }
        try await push(f, names.map { #"{"id":"\#($0)","kind":"\#($0)","reply_to":"r"}"# })
        expectShort("unknown kinds, claims", meter, try await claimAll(f, meter))
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.deferredKinds)).int == 64)
        #expect(try await f.queue.stats().deferred.count == 64)
        let reason = try #require(try await f.queue.rejected(limit: 1).first)
        #expect(reason.contains("kind: no worker does \(names.last!), and 64 other kinds wait already"))
        #expect(try await f.redis.send(Command("PTTL", f.queue.keys.deferredKind(names[0]))).int ?? 0 > 604_000_000)
        // Of one kind only so many elements wait.
        try await push(f, (0..<1100).map { #"{"id":"\#($0)","kind":"\#(names[0])"}"# })
        _ = try await claimAll(f, meter)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.deferredKind(names[0]))).int == 1000)
        expectShort("unknown kinds, ticks", meter, try await ticks(f, meter, limit: 20) { false })
        try await push(f, [#"{"id":"good","url":"http://h/"}"#])
        #expect(try await f.claim()?.run.id == "good")
        // The lists can be deleted by hand.
        #expect(try await Inspection(f.queue).run().isEmpty)
        try await f.redis.send(Command("HSET", f.queue.keys.deferredKinds, names[0], 1))
        #expect(try await Inspection(f.queue).run().map(\.subject) == [f.queue.keys.deferredKind(names[0])])
        try await f.redis.send(Command("DEL", f.queue.keys.deferredKind(names[0])))
        try await f.tick()
        #expect(try await f.queue.stats().deferred.count == 63)
    }

    @Test(
        "operations for any number of batches are applied", arguments: RedisServer.Kind.installed,
        isExact ? [160, 10_000] : [400])
    func batches(server: RedisServer.Kind, count: Int) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        // Of some batches there is a member.
        try await push(f, (0..<100).map { #"{"id":"j\#($0)","url":"http://h/","batch":"b\#($0)"}"# })
        try await push(f, (0..<100).map { #"{"id":"k\#($0)","url":"http://h/","batch":"b0"}"# })
        for _ in 0..<200 { #expect(try await f.claim() != nil) }
        for page in (0..<count).map({ ["batch/b\($0)", "cancelled"] }).chunks(ofCount: 500) {
            try await f.redis.send(Command(arguments: ["HSET", f.queue.keys.want] + page.flatMap(\.self)))
        }
        let costs = try await ticks(f, meter, limit: count) {
            try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0
        }
        expectShort("operations for \(count) batches", meter, costs)
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        for index in 0..<100 {
            #expect(try await f.queue.job("j\(index)")?["want"] == "cancelled")
            #expect(try await f.queue.job("k\(index)")?["want"] == "cancelled")
        }
        #expect(try await Inspection(f.queue).run().isEmpty)
    }

    @Test(
        "an operation for a batch that Redis reads at once is passed to its members in parts",
        arguments: RedisServer.Kind.installed)
    func smallBatch(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        let count = 400
        try await push(f, (0..<count).map { #"{"id":"j\#($0)","url":"http://h/","batch":"b"}"# })
        _ = try await claimAll(f, meter)
        #expect(
            try await f.redis.send(Command("OBJECT", "ENCODING", f.queue.keys.members("b"))).string == "listpack")
        try await f.redis.send(Command("HSET", f.queue.keys.want, "batch/b", "cancelled"))
        var maxWaiting = 0
        let costs = try await ticks(f, meter, limit: count) {
            let left = try await f.redis.send(Command("HLEN", f.queue.keys.want)).int ?? 0
            maxWaiting = max(maxWaiting, left)
            return left == 0
        }
        expectShort("an operation for a batch of \(count) jobs", meter, costs)
        for index in 0..<count { #expect(try await f.queue.job("j\(index)")?["want"] == "cancelled") }
        // A call passes the operation to some fifty members, while others receive it.
        #expect(maxWaiting < count - 50, "\(maxWaiting) operations waited at once")
    }

    @Test(
        "thousands of hosts that asked for a pause do not hold up a job for another one",
        arguments: RedisServer.Kind.installed)
    func hosts(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        func fail(_ id: String, after: Duration) async throws {
            let claim = try #require(try await f.claim())
            #expect(claim.run.id == id)
            let failure = Failure(.http(503), "wait", retryAfter: after)
            try await f.settle(claim, .retry(after: after, failure))
        }
        // Half of the hosts have a job that waits for them.
        let count = Self.isExact ? 5000 : 300
        for index in 0..<count {
            try await push(f, [#"{"id":"j\#(index)","url":"http://h\#(index)/"}"#])
            try await fail("j\(index)", after: .seconds(60))
        }
        try await push(f, (0..<count / 2).map { #"{"id":"k\#($0)","url":"http://h\#($0)/"}"# })
        expectShort("jobs of hosts that back off", meter, try await claimAll(f, meter))
        #expect(try await f.redis.send(Command("HGET", f.queue.keys.hosts, "waiting")).string == "\(count / 2)")
        // Ticks check each once, and then only when it is due.
        let costs = try await ticks(f, meter, limit: 200) {
            try await f.redis.send(Command("ZCOUNT", f.queue.keys[.deferredHosts], "-inf", Int(f.queue.time())))
                .int
                == 0
        }
        expectShort("ticks that look at \(count / 2) hosts", meter, costs)
        #expect(costs.count < count / 50)
        // A cancel of one of these elements searches all lists.
        let last = "k\(count / 2 - 1)"
        try await f.queue.request(.cancelled, of: [last])
        var isAsked = false
        let observations = try await ticks(f, meter, limit: count) {
            let hasEnded = try await f.redis.send(Command("EXISTS", f.queue.keys[.recheck])).int == 0
            defer { isAsked = isAsked || !hasEnded }
            return hasEnded && isAsked
        }
        expectShort("ticks that look for a cancelled job in \(count / 2) lists", meter, observations)
        #expect(try await f.state(last) == .cancelled)

        try await push(f, [#"{"id":"first","url":"http://good/"}"#])
        try await fail("first", after: .milliseconds(300))
        try await push(f, [#"{"id":"victim","url":"http://good/"}"#])
        #expect(try await f.claim() == nil)
        try await eventually("the pause to end") {
            try await f.redis.send(Command("EXISTS", f.queue.keys[.hostBackoff] + "good")).int == 0
        }
        try await f.tick()
        var next: [String?] = [try await f.claim()?.run.id, try await f.claim()?.run.id]
        #expect(next.contains("victim"), "\(next)")
        next = []
        // The deferred jobs leave nothing behind.
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys[.deferredHost] + "good")).int == 0)
        #expect(try await f.redis.send(Command("ZSCORE", f.queue.keys[.deferredHosts], "good")) == .null)
    }

    @Test(
        "sorting elements by their groups is short calls, whatever the elements and however many groups",
        arguments: RedisServer.Kind.installed)
    func groups(server: RedisServer.Kind) async throws {
        let count = Self.isExact ? 100_000 : 5000
        let long = String(repeating: "x", count: 15_000)
        let shapes: [(name: String, element: (Int) -> String)] = [
            ("one group", { #"{"id":"j\#($0)","url":"http://h/\#($0)","group":"a"}"# }),
            ("a group each", { #"{"id":"j\#($0)","url":"http://h/\#($0)","group":"g\#($0)"}"# }),
            ("meta", { #"{"id":"j\#($0)","url":"http://h/\#($0)","meta":{"group":[1]},"group":"a"}"# }),
            ("continuations", { #"{"id":"j\#($0)","at":1763712000000}"# }),
            ("long", { #"{"id":"j\#($0)","url":"http://h/\#(long)","group":"a"}"# }),
            ("long meta", { #"{"id":"j\#($0)","url":"http://h/","meta":{"a":"\#(long)"},"group":"a"}"# }),
            ("nested", { _ in #"{"group":"# + String(repeating: #"{"group":"#, count: 1700) }),
            ("names", { _ in "{\"a\":{\"\" " + String(repeating: #","group":1"#, count: 1500) + "}}" }),
            ("escapes", { _ in "{\"group\"" + String(repeating: #",\"":{}"#, count: 2500) }),
            ("open", { _ in #"{"group""# + String(repeating: "[", count: 15_000) }),
        ]
        for (name, element) in shapes {
            let f = try await QueueFixture(on: server)
            let meter = try await Meter(f.redis)
            try await push(f, [#"{"id":"first","url":"http://h/","group":"first"}"#])
            let first = try #require(try await f.claim())
            for start in stride(from: 0, to: element(0).utf8.count > 1000 ? min(count, 2000) : count, by: 1000) {
                try await push(f, (start..<start + 1000).map(element))
            }
            let costs = try await ticks(f, meter, limit: 100) {
                try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 < 2
            }
            expectShort("ticks that sort elements (\(name))", meter, costs)
            try await f.settle(first, QueueFixture.done)
            var claims: [Double] = []
            for _ in 0..<100 {
                var replies: [ClaimReply] = []
                claims.append(
                    try await meter.cost {
                        replies = try await f.queue.claim(f.worker, tokens: (0..<16).map { _ in Token.make() })
                    })
                for case .job(let claim) in replies { try await f.settle(claim, QueueFixture.done) }
            }
            expectShort("claims that sort elements (\(name))", meter, claims)
        }
    }

    @Test("cancels of any number of jobs are short calls", arguments: RedisServer.Kind.installed)
    func cancels(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        let count = Self.isExact ? 100_000 : 10_000
        try await push(f, (0..<count).map { #"{"id":"j\#($0)","url":"http://h/\#($0)","reply_to":"r"}"# })
        for page in (0..<count).map({ ["j\($0)", "cancelled"] }).chunks(ofCount: 1000) {
            try await f.redis.send(Command(arguments: ["HSET", f.queue.keys.want] + page.flatMap(\.self)))
        }
        expectShort("claims of cancelled jobs", meter, try await claimAll(f, meter, limit: 100))
        expectShort("ticks over \(count) cancels", meter, try await ticks(f, meter, limit: 100) { false })
        // Of jobs whose cancels are applied, a claim ends no more than its budget allows.
        try await f.redis.send(Command("DEL", f.queue.keys.jobs, f.queue.keys.want))
        try await push(f, (0..<60).map { #"{"id":"k\#($0)","url":"http://h/\#($0)"}"# })
        try await f.queue.request(.cancelled, of: (0..<60).map { "k\($0)" })
        while try await f.tick().hasMoreWork {}
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        let costs = try await claimAll(f, meter)
        expectShort("claims of jobs whose cancels are applied", meter, costs)
        #expect(costs.count >= 60 / 15)
    }

    // MARK: Answers

    /// A response whose body is kept in base 64.
    private static func response(_ bytes: Int) -> StoredResponse {
        StoredResponse(
            status: 200, headers: [], body: Array(repeating: 255, count: bytes), requestDigest: "q", method: "GET",
            validated: 5)
    }

    private func answer(_ f: QueueFixture, _ id: String, _ bytes: Int, names: Int = 0) async throws {
        try await push(f, [#"{"id":"\#(id)","kind":"request","url":"http://h/"}"#])
        let claim = try #require(try await f.claim())
        if names > 0 {
            try await push(f, (0..<names).map { #"{"id":"\#(id)","url":"http://h/","reply_to":"\#(id)-\#($0)"}"# })
            while try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 { _ = try await f.claim() }
        }
        try await f.settle(claim, .responded(Self.response(bytes), seconds: 1, unchanged: false))
    }

    // MARK: Ends with many replies

    /// A job that runs, in 16 batches with 64 reply lists each, and with 64 of its own.
    private func claimCrowded(_ f: QueueFixture, _ id: String) async throws -> Claim {
        func element(_ batch: Int, _ list: Int) -> String {
            #"{"id":"\#(id)","url":"http://h/","reply_to":"own\#(list)","batch":{"name":"\#(id)-\#(batch)","size":1,"#
                + #""reply_to":"r\#(batch)-\#(list)"}}"#
        }
        try await push(f, [element(0, 0)])
        let claim = try #require(try await f.claim())
        try await push(f, (0..<1024).map { element($0 / 64, $0 % 64) })
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
        let meter = try await Meter(f.redis)
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
                try await push(f, [#"{"id":"j\#(index)","url":"http://h/","reply_to":"own0"}"#])
                runs.append(try #require(try await f.claim()))
                try await push(
                    f, (1..<64).map { #"{"id":"j\#(index)","url":"http://h/","reply_to":"own\#($0)"}"# })
                let batches = (0..<16).map { "{\"name\":\"j\(index)-\($0)\",\"size\":1,\"reply_to\":\"ends\"}" }
                try await push(f, batches.map { #"{"id":"j\#(index)","url":"http://h/","batch":\#($0)}"# })
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
        costs += try await ticks(f, meter, limit: 60) {
            let isAsked = try await f.redis.send(Command("EXISTS", f.queue.keys.want)).int == 1
            let isLeft = try await f.redis.send(Command("EXISTS", f.queue.keys[.undeliveredReplies])).int == 1
            return !isAsked && !isLeft
        }
        expectShort("\(server.rawValue): \(end) with many reply lists", meter, costs)
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
    /// of large responses are longer (architecture-bus.md), but never by the number of their reply lists.
    @Test(
        "a response for 64 reply lists is several short calls", arguments: RedisServer.Kind.installed,
        [(bytes: 64 << 10, factor: 1.0), (1 << 20, 10)])
    func largeReplies(server: RedisServer.Kind, _ response: (bytes: Int, factor: Double)) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        try await push(f, [#"{"id":"l","kind":"request","url":"http://h/"}"#])
        let claim = try #require(try await f.claim())
        try await push(f, (0..<64).map { #"{"id":"l","url":"http://h/","reply_to":"l-\#($0)"}"# })
        while try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 { _ = try await f.claim() }
        let end = Settlement.responded(Self.response(response.bytes), seconds: 1, unchanged: false)
        var costs = [try await meter.cost { try await f.settle(claim, end) }]
        costs += try await ticks(f, meter, limit: 60) {
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

    @Test("an operation of any length is a short call", arguments: RedisServer.Kind.installed)
    func longOperations(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        var costs: [Double] = []
        for text in [
            String(repeating: "a", count: 1_900_000), String(repeating: "1", count: 1_900_000),
            "cancelled " + String(repeating: "1", count: 1_900_000), String(repeating: "é", count: 950_000),
        ] {
            // The name of a field is read in any case.
            let name = String(text.prefix(100_000))
            for (field, value) in [("x", text), ("batch/x", text), (name, "cancelled"), ("batch/" + name, "cancelled")]
            {
                try await f.redis.send(Command("HSET", f.queue.keys.want, field, value))
                costs += try await ticks(f, meter, limit: 5) {
                    try await f.redis.send(Command("EXISTS", f.queue.keys.want)).int == 0
                }
            }
            // The claim of the job's element applies it, too.
            try await f.redis.send(Command("HSET", f.queue.keys.want, "x", text))
            try await push(f, [#"{"id":"x","url":"http://h/"}"#])
            costs += try await claimAll(f, meter)
        }
        expectShort("\(server.rawValue): operations of 1.9 MB", meter, costs)
        #expect(costs.max() ?? 0 <= meter.limit, "\(costs)")
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.want)).int == 0)
    }

    @Test("a check of many jobs is many short calls", arguments: RedisServer.Kind.installed)
    func inspections(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        let ids = (0..<Inspection.batch).map { "j\($0)" }
        try await push(f, ids.map { #"{"id":"\#($0)","url":"http://h/\#($0)","deadline":1000}"# })
        var runs: [Claim] = []
        for _ in ids { runs.append(try #require(try await f.claim())) }
        for (index, claim) in runs.enumerated() {
            try await f.settle(
                claim, index.isMultiple(of: 2) ? .released(why: "test") : .retry(after: .seconds(60), Failure(.io, "m"))
            )
        }
        var costs: [Double] = []
        for _ in 0..<10 {
            let arguments: [any RedisArgument] =
                [Token.make(), ""] + f.queue.policy.retention + ids.flatMap { [$0, ""] }
            costs.append(
                try await meter.cost {
                    _ = try await f.redis.run(
                        f.queue.functions.inspect, keys: f.queue.keys.functionKeys(for: "-"), arguments: arguments,
                        timeout: .seconds(30))
                })
        }
        expectShort("\(server.rawValue): checks of \(ids.count) jobs", meter, costs)
        #expect(try await Inspection(f.queue).run().isEmpty)
    }

    @Test(
        "repeated pushes of a job with a large response cost little, and grow memory little",
        arguments: RedisServer.Kind.installed)
    func duplicates(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await Meter(f.redis)
        for (id, bytes) in [("large", 1 << 20), ("medium", 12 << 10), ("small", 100)] {
            try await answer(f, id, bytes)
            // As text, each byte of the body takes six in JSON.
            let body = String(repeating: "\u{1}", count: bytes)
            try await f.redis.send(Command("HDEL", f.queue.keys.job(id), "body_base64"))
            try await f.redis.send(Command("HSET", f.queue.keys.job(id), "body", body))
            let before = try await bytesOfKeys(f)
            try await push(
                f, (0..<60).map { #"{"id":"\#(id)","url":"http://h/","at":1700000000000,"reply_to":"\#(id)-\#($0)"}"# })
            expectShort("answers to a repeated push, \(id)", meter, try await claimAll(f, meter))
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

    @Test("a published event has no large response, and the reply has it") func published() async throws {
        let f = try await QueueFixture()
        let events = f.queue.events()
        let iterator = events.makeAsyncIterator()
        _ = await iterator.next()
        for (id, bytes) in [("s", 10_000), ("l", 100_000)] {
            try await push(f, [#"{"id":"\#(id)","kind":"request","url":"http://h/","reply_to":"\#(id)"}"#])
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
        try await push(f, [#"{"id":"r","kind":"request","url":"http://h/","reply_to":"a"}"#])
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
}
