import Foundation
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Calls are short whatever the queue keeps: many kinds, batches, hosts, groups, cancels and operations.
@Suite(.serialized) struct KeptStateBoundTests {
    @Test(
        "thousands of unknown kinds are bounded, and cost no later call anything",
        arguments: RedisServer.Kind.installed)
    func kinds(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let names = (0..<(CallMeter.isExact ? 10_000 : 1000)).map { number in
            String("\(number)".map { Character(UnicodeScalar($0.asciiValue! + 49)) })
        }
        try await f.push(names.map { #"{"id":"\#($0)","kind":"\#($0)","reply_to":"r"}"# })
        meter.expectShort("unknown kinds, claims", try await meter.claimAll())
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.deferredKinds)).int == 64)
        #expect(try await f.queue.stats().deferred.count == 64)
        let reason = try #require(try await f.queue.rejected(limit: 1).first)
        #expect(reason.contains("kind: no worker does \(names.last!), and 64 other kinds wait already"))
        #expect(try await f.redis.send(Command("PTTL", f.queue.keys.deferredKind(names[0]))).int ?? 0 > 604_000_000)
        // Of one kind only so many elements wait.
        try await f.push((0..<1100).map { #"{"id":"\#($0)","kind":"\#(names[0])"}"# })
        _ = try await meter.claimAll()
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.deferredKind(names[0]))).int == 1000)
        meter.expectShort("unknown kinds, ticks", try await meter.ticks(limit: 20) { false })
        try await f.push([#"{"id":"good","url":"http://h/"}"#])
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
        CallMeter.isExact ? [160, 10_000] : [400])
    func batches(server: RedisServer.Kind, count: Int) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        // Of some batches there is a member.
        try await f.push((0..<100).map { #"{"id":"j\#($0)","url":"http://h/","batch":"b\#($0)"}"# })
        try await f.push((0..<100).map { #"{"id":"k\#($0)","url":"http://h/","batch":"b0"}"# })
        for _ in 0..<200 { #expect(try await f.claim() != nil) }
        for page in (0..<count).map({ ["batch/b\($0)", "cancelled"] }).chunks(ofCount: 500) {
            try await f.redis.send(Command(arguments: ["HSET", f.queue.keys.want] + page.flatMap(\.self)))
        }
        let costs = try await meter.ticks(limit: count) {
            try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0
        }
        meter.expectShort("operations for \(count) batches", costs)
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
        let meter = try await CallMeter(f)
        let count = 400
        try await f.push((0..<count).map { #"{"id":"j\#($0)","url":"http://h/","batch":"b"}"# })
        _ = try await meter.claimAll()
        #expect(
            try await f.redis.send(Command("OBJECT", "ENCODING", f.queue.keys.members("b"))).string == "listpack")
        try await f.redis.send(Command("HSET", f.queue.keys.want, "batch/b", "cancelled"))
        var maxWaiting = 0
        let costs = try await meter.ticks(limit: count) {
            let left = try await f.redis.send(Command("HLEN", f.queue.keys.want)).int ?? 0
            maxWaiting = max(maxWaiting, left)
            return left == 0
        }
        meter.expectShort("an operation for a batch of \(count) jobs", costs)
        for index in 0..<count { #expect(try await f.queue.job("j\(index)")?["want"] == "cancelled") }
        // A call passes the operation to some fifty members, while others receive it.
        #expect(maxWaiting < count - 50, "\(maxWaiting) operations waited at once")
    }

    @Test("elements whose bodies have many ids are searched in parts", arguments: RedisServer.Kind.installed)
    func ids(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        try await f.queue.setLimit(of: "h", to: #"{"connections":0}"#)
        let body = (0..<600).map { #"{"id":"x\#($0)"}"# }.joined(separator: ",")
        try await f.push((0..<60).map { #"{"id":"j\#($0)","kind":"request","url":"http://h/","json":[\#(body)]}"# })
        _ = try await meter.claimAll()
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys[.deferredHost] + "h")).int == 60)
        try await f.queue.request(.cancelled, of: ["j0"])
        var most = 0
        let costs = try await meter.ticks(limit: 100) {
            let stats = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
            let line = stats.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_exists:") }
            most = max(most, line.flatMap { $0.firstMatch(of: /calls=(\d+)/) }.flatMap { Int($0.1) } ?? 0)
            try await f.redis.send(Command("CONFIG", "RESETSTAT"))
            return try await f.state("j0") == .cancelled
        }
        meter.expectShort("a cancel among elements with many ids", costs)
        #expect(most < 1500, "\(most) times EXISTS in one call")
        #expect(try await f.state("j0") == .cancelled)
    }

    @Test(
        "thousands of hosts that asked for a pause do not hold up a job for another one",
        arguments: RedisServer.Kind.installed)
    func hosts(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        func fail(_ id: String, after: Duration) async throws {
            let claim = try #require(try await f.claim())
            #expect(claim.run.id == id)
            let failure = Failure(.http(503), "wait", retryAfter: after)
            try await f.settle(claim, .retry(after: after, failure))
        }
        // Half of the hosts have a job that waits for them.
        let count = CallMeter.isExact ? 5000 : 300
        for index in 0..<count {
            try await f.push([#"{"id":"j\#(index)","url":"http://h\#(index)/"}"#])
            try await fail("j\(index)", after: .seconds(60))
        }
        try await f.push((0..<count / 2).map { #"{"id":"k\#($0)","url":"http://h\#($0)/"}"# })
        meter.expectShort("jobs of hosts that back off", try await meter.claimAll())
        #expect(try await f.redis.send(Command("HGET", f.queue.keys.hosts, "waiting")).string == "\(count / 2)")
        // Ticks check each once, and then only when it is due.
        let costs = try await meter.ticks(limit: 200) {
            try await f.redis.send(Command("ZCOUNT", f.queue.keys[.deferredHosts], "-inf", Int(f.queue.time())))
                .int
                == 0
        }
        meter.expectShort("ticks that look at \(count / 2) hosts", costs)
        #expect(costs.count < count / 50)
        // A cancel of one of these elements searches all lists.
        let last = "k\(count / 2 - 1)"
        try await f.queue.request(.cancelled, of: [last])
        var isAsked = false
        let observations = try await meter.ticks(limit: count) {
            let hasEnded = try await f.redis.send(Command("EXISTS", f.queue.keys[.recheck])).int == 0
            defer { isAsked = isAsked || !hasEnded }
            return hasEnded && isAsked
        }
        meter.expectShort("ticks that look for a cancelled job in \(count / 2) lists", observations)
        #expect(try await f.state(last) == .cancelled)

        try await f.push([#"{"id":"first","url":"http://good/"}"#])
        try await fail("first", after: .milliseconds(300))
        try await f.push([#"{"id":"victim","url":"http://good/"}"#])
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
        let count = CallMeter.isExact ? 100_000 : 5000
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
            let meter = try await CallMeter(f)
            try await f.push([#"{"id":"first","url":"http://h/","group":"first"}"#])
            let first = try #require(try await f.claim())
            for start in stride(from: 0, to: element(0).utf8.count > 1000 ? min(count, 2000) : count, by: 1000) {
                try await f.push((start..<start + 1000).map(element))
            }
            let costs = try await meter.ticks(limit: 100) {
                try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 < 2
            }
            meter.expectShort("ticks that sort elements (\(name))", costs)
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
            meter.expectShort("claims that sort elements (\(name))", claims)
        }
    }

    @Test("cancels of any number of jobs are short calls", arguments: RedisServer.Kind.installed)
    func cancels(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let count = CallMeter.isExact ? 100_000 : 10_000
        try await f.push((0..<count).map { #"{"id":"j\#($0)","url":"http://h/\#($0)","reply_to":"r"}"# })
        for page in (0..<count).map({ ["j\($0)", "cancelled"] }).chunks(ofCount: 1000) {
            try await f.redis.send(Command(arguments: ["HSET", f.queue.keys.want] + page.flatMap(\.self)))
        }
        meter.expectShort("claims of cancelled jobs", try await meter.claimAll(limit: 100))
        meter.expectShort("ticks over \(count) cancels", try await meter.ticks(limit: 100) { false })
        // Of jobs whose cancels are applied, a claim ends no more than its budget allows.
        try await f.redis.send(Command("DEL", f.queue.keys.jobs, f.queue.keys.want))
        try await f.push((0..<60).map { #"{"id":"k\#($0)","url":"http://h/\#($0)"}"# })
        try await f.queue.request(.cancelled, of: (0..<60).map { "k\($0)" })
        while try await f.tick().hasMoreWork {}
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        let costs = try await meter.claimAll()
        meter.expectShort("claims of jobs whose cancels are applied", costs)
        #expect(costs.count >= 60 / 15)
    }

    @Test("an operation of any length is a short call", arguments: RedisServer.Kind.installed)
    func longOperations(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
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
                costs += try await meter.ticks(limit: 5) {
                    try await f.redis.send(Command("EXISTS", f.queue.keys.want)).int == 0
                }
            }
            // The claim of the job's element applies it, too.
            try await f.redis.send(Command("HSET", f.queue.keys.want, "x", text))
            try await f.push([#"{"id":"x","url":"http://h/"}"#])
            costs += try await meter.claimAll()
        }
        meter.expectShort("\(server.rawValue): operations of 1.9 MB", costs)
        #expect(costs.max() ?? 0 <= meter.limit, "\(costs)")
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.want)).int == 0)
    }

    @Test("a check of many jobs is many short calls", arguments: RedisServer.Kind.installed)
    func inspections(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let ids = (0..<Inspection.batch).map { "j\($0)" }
        try await f.push(ids.map { #"{"id":"\#($0)","url":"http://h/\#($0)","deadline":1000}"# })
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
        meter.expectShort("\(server.rawValue): checks of \(ids.count) jobs", costs)
        #expect(try await Inspection(f.queue).run().isEmpty)
    }

    @Test("jobs that hold large responses are claimed again in short calls", arguments: RedisServer.Kind.installed)
    func responses(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let (count, body) = (32, String(repeating: "x", count: 131_072))
        for n in 0..<count {
            try await f.push([#"{"kind":"request","id":"j\#(n)","url":"http://h/"}"#])
            try await f.settle(
                try #require(try await f.claim()), .failed(Failure(.connect, "m"), retryable: true, received: 0))
            try await f.redis.send(
                Command("HSET", f.queue.keys.job("j\(n)"), "status", "500", "headers", "{}", "body", body))
        }
        try await f.push((0..<count).map { #"{"kind":"request","id":"j\#($0)","url":"http://h/"}"# })
        var (costs, claimed): ([Double], Int) = ([], 0)
        while claimed < count, costs.count < 200 {
            var replies: [ClaimReply] = []
            costs.append(
                try await meter.cost {
                    replies = try await f.queue.claim(f.worker, tokens: (0..<16).map { _ in Token.make() })
                })
            for case .job(let claim) in replies {
                claimed += 1
                #expect(claim.previous == .failed && claim.before.count > body.utf8.count)
            }
        }
        meter.expectShort("\(server.rawValue): claims of jobs with responses", costs)
        #expect(claimed == count)
    }
}
