import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite("Limits of hosts that the fleet shares")
struct HostTests {
    private func limit(_ host: String, _ text: String, _ f: QueueFixture) async throws {
        try await f.redis.send(Command("HSET", "haul:{default}:limits", host, text))
    }

    private func push(_ f: QueueFixture, _ ids: String..., host: String = "slow") async throws {
        for id in ids { try await f.push(#"{"id":"\#(id)","url":"http://\#(host)/\#(id)"}"#) }
    }

    private func length(_ key: String, _ f: QueueFixture) async throws -> Int {
        try await f.redis.send(Command("LLEN", f.queue.keys.prefix + key)).int ?? -1
    }

    private func claims(_ f: QueueFixture, _ names: [String] = ["w1", "w2"], limit: Int = 9) async throws -> [Claim] {
        var claims: [Claim] = []
        for turn in 0..<limit {
            guard let claim = try await f.claim(names[turn % names.count] == "w1" ? nil : names[turn % names.count])
            else { break }
            claims.append(claim)
        }
        return claims
    }

    @Test("a bucket counts as a host of its name, and each bucket as one of its own") func buckets() async throws {
        let f = try await QueueFixture()
        try await limit("films", #"{"connections":1}"#, f)
        for (id, url) in [("1", "s3://films/a"), ("2", "s3://films/b"), ("3", "s3://music/a"), ("4", "s3://music/b")] {
            try await f.push(#"{"id":"\#(id)","url":"\#(url)"}"#)
        }
        #expect(try await claims(f).map(\.run.id) == ["1", "3", "4"])
        #expect(try await length("deferred_host:films", f) == 1)
        try await f.expectOrder()
    }

    @Test("no more jobs of a host run than its limit allows, with one connection each; others pass them")
    func deferred() async throws {
        let f = try await QueueFixture()
        try await limit("slow", #"{"connections":2}"#, f)
        try await push(f, "1", "2", "3", "4")
        try await push(f, "other", host: "fast")
        let running = try await claims(f)
        #expect(running.map(\.run.id) == ["1", "2", "other"])
        #expect(try running.map { try $0.job().connections } == [1, 1, nil])
        #expect(try await length("jobs", f) == 0)
        #expect(try await length("deferred_host:slow", f) == 2)
        #expect(try await f.queue.stats().counts[.queued] == 2)
        // The settle that releases a connection claims the oldest waiting job.
        let reply = try await f.queue.settle(
            running[0].run, as: QueueFixture.done, worker: f.worker, next: Token.make())
        guard case .job(let next)? = reply.next else {
            Issue.record("nothing was claimed: \(reply)")
            return
        }
        #expect(next.run.id == "3")
        try await f.queue.settle(next.run, as: .released(why: "shutdown"), worker: f.worker)
        try await f.expectOrder()
        #expect(try await claims(f).count == 1)
        #expect(try await f.queue.stats().counts[.queued] == 1)
    }

    @Test(
        "every end of a run releases its connection to the host",
        arguments: ["paused", "cancelled", "failed", "retry", "lost"])
    func freed(_ end: String) async throws {
        let f = try await QueueFixture { $0.lease = .seconds(2) }
        try await limit("slow", #"{"connections":1}"#, f)
        try await push(f, "1", "2")
        let other = WorkerIdentity(name: "w2", store: "s", instance: "w2")
        let claim = try #require(try await f.claim("w2"))
        #expect(try await f.claim() == nil)
        switch end {
        case "paused", "cancelled":
            try await f.queue.request(end == "paused" ? .paused : .cancelled, of: ["1"])
            try await f.tick()
            try await f.queue.settle(claim.run, as: end == "paused" ? .paused : .cancelled, worker: other)
        case "failed":
            try await f.queue.settle(
                claim.run, as: .failed(Failure(.io, "m"), retryable: false, received: 0), worker: other)
        case "retry":
            try await f.queue.settle(claim.run, as: .retry(after: .seconds(60), Failure(.connect, "m")), worker: other)
        default:
            try await eventually("the lease to lapse") {
                try await f.tick()
                return try await f.state("1") == .queued
            }
        }
        // A lost job comes before the other waiting job.
        let next = try #require(try await f.claim())
        #expect(next.run.id == (end == "lost" ? "1" : "2"))
        #expect(try await f.claim() == nil)
        #expect(try await f.redis.send(Command("SMEMBERS", "haul:{default}:busy:slow")).array?.count == 1)
        try await f.expectOrder()
    }

    @Test("ten thousand jobs for one host hold up a job for another host by a hundred small calls at most")
    func many() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.hostConnections, to: "3")
        for batch in 0..<10 {
            let elements = (0..<1000).map { #"{"url":"http://slow/\#(batch)/\#($0)"}"# }
            try await f.redis.send(Command(arguments: ["LPUSH", f.queue.keys.jobs] + elements))
        }
        try await push(f, "fast", host: "fast")
        for _ in 0..<3 { #expect(try await f.claim() != nil) }
        var calls = 0
        while calls < 200 {
            calls += 1
            let reply = try await f.queue.claim(f.worker, token: Token.make())
            if case .more = reply { continue }
            guard case .job(let claim) = reply else {
                Issue.record("\(reply)")
                return
            }
            #expect(claim.run.id == "fast")
            break
        }
        #expect(calls <= 110)
        #expect(try await length("deferred_host:slow", f) == 9997)
    }

    @Test("waiting jobs come back in order when a limit is raised or removed, and no key is left")
    func raised() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.hostConnections, to: "0")
        let ids = (0..<300).map { "j\($0)" }
        for id in ids { try await push(f, id) }
        while case .more = try await f.queue.claim(f.worker, token: Token.make()) {}
        #expect(try await length("deferred_host:slow", f) == 300)
        try await f.queue.set(.hostConnections, to: "2")
        try await f.tick()
        #expect(try await claims(f).map(\.run.id) == ["j0", "j1"])
        try await f.queue.set(.hostConnections, to: nil)
        // Jobs that have come back and are not claimed yet are not overtaken.
        for _ in 0..<2 { try await f.tick() }
        #expect(try await length("jobs", f) == 298)
        // The budget of a call, 8 KiB, lets some 30 small jobs start, which takes Redis 0.7 ms.
        let left = try await f.queue.claim(f.worker, tokens: (0..<298).map { _ in Token.make() })
        let found = left.compactMap { if case .job(let claim) = $0 { claim.run.id } else { nil } }
        #expect(found == Array(ids[2...].prefix(found.count)) && found.count >= 25)
        try await f.tick()
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.hosts)).int == 0)
    }

    @Test("a waiting job that came back and is refused again keeps its place before newer ones")
    func refusedAgain() async throws {
        let f = try await QueueFixture()
        try await limit("slow", #"{"connections":1}"#, f)
        try await push(f, "1", "2", "3", "4")
        let running = try await claims(f, ["w1"], limit: 1)
        #expect(try await f.claim() == nil)
        // 2 comes back, but 1 is before it in the queue and takes the connection again.
        try await f.settle(running[0], .released(why: "shutdown"))
        var order: [String] = []
        while let claim = try await f.claim() {
            #expect(try await f.claim() == nil)
            order.append(claim.run.id)
            try await f.settle(claim, QueueFixture.done)
        }
        #expect(order == ["1", "2", "3", "4"])
        try await f.expectOrder()
    }

    @Test("runs that began before a limit was set count") func before() async throws {
        let f = try await QueueFixture()
        try await push(f, "1", "2", "3")
        let running = try await claims(f, ["w1"], limit: 2)
        try await limit("slow", #"{"connections":2}"#, f)
        try await f.tick(running)
        #expect(try await f.claim() == nil)
        try await f.settle(running[0], QueueFixture.done)
        #expect(try await f.claim()?.run.id == "3")
    }

    @Test("a limit of a host's port overrides the host's limit, and that overrides the queue's limit")
    func names() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.hostConnections, to: "1")
        try await limit("slow:8080", #"{"connections":2}"#, f)
        try await limit("[::1]", #"{"connections":0}"#, f)
        for (id, url) in [
            ("a", "http://SLOW:8080/"), ("b", "http://me:secret@slow:8080/?x"), ("c", "http://slow:8080/"),
            ("d", "http://slow/"), ("e", "http://slow:81/"), ("f", "http://[::1]:82/"), ("g", "http://other#x"),
        ] { try await f.push(#"{"id":"\#(id)","url":"\#(url)"}"#) }
        #expect(try await claims(f).map(\.run.id) == ["a", "b", "d", "g"])
        #expect(try await length("deferred_host:slow:8080", f) == 1)
        #expect(try await length("deferred_host:slow", f) == 1)
        #expect(try await length("deferred_host:[::1]", f) == 1)
        try await f.expectOrder()
    }

    @Test("a limit of a port counts for URLs that leave out the default port, and a dot at the end makes no other host")
    func defaultPorts() async throws {
        let f = try await QueueFixture()
        for name in ["slow:80", "tls:443", "dot"] { try await limit(name, #"{"connections":0}"#, f) }
        let held = [
            "http://slow/", "http://slow:80/", "HTTP://me@Slow./", "https://tls?x", "https://tls.:443/",
            "http://dot./", "https://dot.:8080/",
        ]
        let free = ["https://slow/", "http://tls/", "http://slow:8080/", "http://127.0.0.1/"]
        for (number, url) in (held + free).enumerated() { try await f.push(#"{"id":"\#(number)","url":"\#(url)"}"#) }
        #expect(try await claims(f).map(\.run.id) == free.indices.map { "\(held.count + $0)" })
        #expect(try await length("deferred_host:slow:80", f) == 3)
        #expect(try await length("deferred_host:tls:443", f) == 2)
        #expect(try await length("deferred_host:dot", f) == 2)
        try await f.expectOrder()
    }

    @Test("after a 429 to one worker all workers leave the host alone, until its retry is due")
    func shut() async throws {
        let f = try await QueueFixture()
        try await push(f, "1", "2", "3")
        try await push(f, "other", host: "fast")
        let claim = try #require(try await f.claim())
        let plain = try #require(try await f.claim("w2"))
        let busy = Failure(.http(429), "m", retryAfter: .milliseconds(700))
        try await f.queue.settle(claim.run, as: .retry(after: .milliseconds(700), busy), worker: f.worker)
        // Only the job of another host is claimed.
        #expect(try await claims(f).map(\.run.id) == ["other"])
        #expect(try await length("deferred_host:slow", f) == 1)
        try await eventually("the host to be asked again") {
            try await f.tick()
            return try await f.claim()?.run.id == "3"
        }
        // Another failure does not shut the host.
        try await f.settle(plain, .retry(after: .seconds(60), Failure(.http(503), "m")))
        try await push(f, "4")
        try await eventually { try await f.claim()?.run.id == "1" }
        #expect(try await f.claim()?.run.id == "4")
        try await f.tick()
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.hosts)).int == 0)
    }

    @Test("an invalid limit limits nothing, and the inspection reports it") func invalid() async throws {
        let f = try await QueueFixture()
        let wrong = [
            ("slow", #"{"connections":"2"}"#), ("a", "2"), ("b", #"{"connections":-1}"#), ("c", #"{"conections":1}"#),
            ("Slow", #"{"connections":1}"#), ("http://d/", #"{"connections":1}"#),
        ]
        for (host, text) in wrong { try await limit(host, text, f) }
        try await push(f, "1", "2", "3")
        #expect(try await claims(f).count == 3)
        let findings = try await Inspection(f.queue).run()
        #expect(findings.count == wrong.count && findings.allSatisfy { $0.subject == f.queue.keys.limits })
    }

    @Test("keys of another type stop no job", arguments: ["limits", "hosts", "busy:slow", "deferred_host:slow"])
    func strange(_ key: String) async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.hostConnections, to: "1")
        try await f.redis.send(Command("SET", f.queue.keys.prefix + key, "x"))
        try await push(f, "1", "2")
        let running = try await claims(f)
        #expect(running.count >= 1)
        try await f.tick(running)
        #expect(try await f.queue.rejected(limit: 9).isEmpty)
        for claim in running { try await f.settle(claim, QueueFixture.done) }
        try await f.redis.send(Command("DEL", f.queue.keys.prefix + key))
        try await f.tick()
        for claim in try await claims(f) { try await f.settle(claim, QueueFixture.done) }
        #expect(try await f.queue.stats().counts[.completed] == 2)
    }

    @Test("a connection that is counted without a lease is released") func stray() async throws {
        let f = try await QueueFixture()
        try await limit("slow", #"{"connections":1}"#, f)
        try await f.redis.send(Command("SADD", "haul:{default}:busy:slow", "ghost"))
        try await push(f, "1")
        #expect(try await f.claim() == nil)
        try await f.tick()
        #expect(try await f.claim()?.run.id == "1")
    }

    @Test("an element that comes back and starts nothing lets the next one come in the same call") func passedOn()
        async throws
    {
        let f = try await QueueFixture()
        try await limit("slow", #"{"connections":1}"#, f)
        try await push(f, "1")
        let first = try #require(try await f.claim())
        let at = try await f.queue.time()
        for id in ["2", "2", "2", "3"] {
            try await f.push(#"{"id":"\#(id)","url":"http://slow/\#(id)","at":\#(at)}"#)
        }
        #expect(try await f.claim() == nil)
        try await f.settle(first, QueueFixture.done)
        let second = try #require(try await f.claim())
        let reply = try await f.queue.settle(second.run, as: QueueFixture.done, worker: f.worker, next: Token.make())
        let next: Claim? = if case .job(let claim)? = reply.next { claim } else { nil }
        #expect(second.run.id == "2" && next?.run.id == "3")
        try await f.expectOrder()
    }

    @Test("elements that come back from a host into a group at its limit keep their order") func returnedToGroup()
        async throws
    {
        let f = try await QueueFixture()
        try await limit("slow", #"{"connections":1}"#, f)
        try await limit("group:acme", #"{"running":1}"#, f)
        func push(_ id: String, _ host: String, _ group: String) async throws {
            try await f.push(#"{"id":"\#(id)","url":"http://\#(host)/\#(id)","group":"\#(group)"}"#)
        }
        try await push("other", "slow", "bolt")
        let other = try #require(try await f.claim())
        for n in 1...5 { try await push("b\(n)", "slow", "acme") }
        #expect(try await f.claim() == nil)
        try await push("full", "fast", "acme")
        let full = try #require(try await f.claim())
        #expect(full.run.id == "full")
        try await limit("slow", #"{"connections":10}"#, f)
        try await f.tick([other, full])
        #expect(try await f.claim() == nil)
        var (begun, running): ([String], Claim?) = ([], full)
        while let claim = running {
            try await f.settle(claim, QueueFixture.done)
            running = try await f.claim()
            if let running { begun.append(running.run.id) }
        }
        #expect(begun == ["b1", "b2", "b3", "b4", "b5"])
        try await f.expectOrder()
    }

    @Test("a mirror that asks for a pause is paused, and not the host of the job's first URL") func mirror()
        async throws
    {
        let f = try await QueueFixture()
        try await f.push(#"{"id":"1","urls":["http://first/1","http://second:81/1"]}"#)
        let claim = try #require(try await f.claim())
        var failure = Failure(.http(429), "m")
        failure.mirror = "second:81"
        try await f.settle(claim, .retry(after: .seconds(60), failure))
        let paused = try await f.server.cli("KEYS", f.queue.keys.prefix + "backoff:*")
        #expect(paused.hasSuffix("backoff:second"))
    }

    @Test("one tick returns about a megabyte of the elements of a host that may be contacted again, in order")
    func largeElements() async throws {
        let f = try await QueueFixture()
        try await limit("slow", #"{"connections":1000}"#, f)
        let list = f.queue.keys[.deferredHost] + "slow"
        let pad = String(repeating: "x", count: 16_000)
        for number in 0..<300 {
            // Small ones first, which say nothing of the size of the others.
            let data = number < 50 ? "" : pad
            let element = #"{"id":"\#(number)","url":"http://slow/\#(number)","data":"\#(data)"}"#
            try await f.redis.send(Command("LPUSH", list, element))
        }
        try await f.redis.send(Command("ZADD", f.queue.keys[.deferredHosts], 1, "slow"))
        try await f.redis.send(Command("HSET", f.queue.keys.hosts, "waiting", 300))
        try await f.tick()
        let returned = try await f.redis.send(Command("LRANGE", f.queue.keys.jobs, 0, -1)).array ?? []
        // No page of elements is read after the megabyte.
        #expect((110...140).contains(returned.count), "\(returned.count)")
        let ids = returned.reversed().map { Queue.listed($0.bytes ?? []).id }
        #expect(ids == (0..<returned.count).map(String.init))
        #expect(try await length("deferred_host:slow", f) == 300 - returned.count)
    }
}
