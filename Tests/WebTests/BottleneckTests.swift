import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// What slows a queue or a job, as the page, the API and the command show it.
@Suite struct BottleneckTests {
    private static let path = "/api/queues/default"

    private static func run(_ fixture: WebFixture, _ id: String, _ fields: [String: String]) async throws {
        let keys = fixture.queue.keys
        let pairs = fields.merging(["state": "running"]) { $1 }.flatMap { [$0.key, $0.value] }
        try await fixture.queue.redis.send(Command(arguments: ["HSET", keys.job(id)] + pairs))
        let lease = try await fixture.queue.time() + 60_000
        try await fixture.queue.redis.send(Command("ZADD", keys.index(.running), lease, id))
    }

    /// The worker of the fixture, with so many slots and running jobs.
    private static func setWorker(_ fixture: WebFixture, slots: String, running: Int) async throws {
        let (keys, now) = (fixture.queue.keys, try await fixture.queue.time())
        try await fixture.queue.redis.send(
            Command(
                arguments: [
                    "HSET", keys.worker("w1"), "slots", slots, "running", "\(running)", "state", "working", "seen",
                    "\(now + 60_000)",
                ]))
    }

    private static func found(_ fixture: WebFixture) async throws -> [Bottleneck] {
        try await QueueReaderCache(fixture.queue).bottlenecks().found
    }

    @Test("queued jobs wait for a slot, a limit of the queue, a worker, or for the end of a pause")
    func turn() async throws {
        let fixture = try await WebFixture()
        for number in 0..<3 { _ = await fixture.push(#"{"url":"http://a.example/\#(number)"}"#) }
        try await Self.setWorker(fixture, slots: "2", running: 1)
        #expect(try await Self.found(fixture) == [])
        try await Self.setWorker(fixture, slots: "2", running: 2)
        #expect(try await Self.found(fixture) == [Bottleneck(.slots, queued: 3, limit: 2)])
        try await Self.setWorker(fixture, slots: "unlimited", running: 2)
        #expect(try await Self.found(fixture) == [])
        _ = try await fixture.queue.redis.send(Command("HSET", fixture.queue.keys.settings, "starts", "30/min"))
        #expect(try await Self.found(fixture) == [Bottleneck(.starts, queued: 3, starts: "30/min")])
        _ = try await fixture.queue.redis.send(Command("HSET", fixture.queue.keys.settings, "max_running", 1))
        try await Self.run(fixture, "r", ["url": "http://a.example/r"])
        #expect(try await Self.found(fixture) == [Bottleneck(.maxRunning, queued: 3, limit: 1)])
        _ = try await fixture.queue.redis.send(Command("HSET", fixture.queue.keys.worker("w1"), "state", "quiet"))
        #expect(try await Self.found(fixture) == [Bottleneck(.noWorker, queued: 3)])
        _ = try await fixture.queue.redis.send(Command("HSET", fixture.queue.keys.settings, "paused", 1))
        #expect(try await Self.found(fixture) == [Bottleneck(.paused, queued: 3)])
        let listed = await fixture.get(Self.path).json?["bottlenecks"]?.array ?? []
        #expect(listed.map(\.text) == [#"{"cause":"paused","queued":3,"running":0}"#])
    }

    @Test("queued jobs wait for space while no worker that claims jobs has any") func noSpace() async throws {
        let fixture = try await WebFixture()
        for number in 0..<3 { _ = await fixture.push(#"{"url":"http://a.example/\#(number)"}"#) }
        try await Self.setWorker(fixture, slots: "2", running: 0)
        #expect(try await Self.found(fixture) == [])
        let (redis, worker) = (fixture.queue.redis, fixture.queue.keys.worker("w1"))
        try await redis.send(Command("HSET", worker, "free", 0))
        #expect(try await Self.found(fixture) == [Bottleneck(.disk, queued: 3)])
        let queued = JobRecord(id: "q", state: .queued, fields: ["url": "http://a.example/0"])
        #expect(try await QueueReaderCache(fixture.queue).bottlenecks(of: queued).map(\.cause) == [.disk])
        // A running job that waits for space, too.
        try await Self.run(fixture, "r", ["url": "http://a.example/r", "waiting": "disk"])
        #expect(try await Self.found(fixture) == [Bottleneck(.disk, queued: 3, running: 1)])
        try await redis.send(Command("HSET", worker, "free", 1))
        #expect(try await Self.found(fixture) == [Bottleneck(.disk, running: 1)])
        #expect(try await QueueReaderCache(fixture.queue).bottlenecks(of: queued) == [])
    }

    @Test("jobs that gave up their slot because of the disk are counted while they are scheduled") func putBack()
        async throws
    {
        let fixture = try await WebFixture()
        for number in 0..<2 {
            _ = await fixture.push(#"{"url":"http://a.example/\#(number)","id":"j\#(number)"}"#)
            let claim = try #require(try await fixture.claim())
            try await fixture.settle(claim, .parked(after: .seconds(600), reason: "disk"))
        }
        // Scheduled as well, but for its own reason.
        _ = await fixture.push(#"{"url":"http://a.example/later","id":"later","delay":600}"#)
        _ = try await fixture.claim()
        #expect(try await fixture.queue.count(in: .scheduled) == 3)
        #expect(try await Self.found(fixture) == [Bottleneck(.disk, scheduled: 2)])
        let overview = try #require(await fixture.get(Self.path).json)
        #expect(overview["waiting_for"]?.text == #"[["disk",2]]"#)
        #expect(overview["bottlenecks"]?.text == #"[{"cause":"disk","queued":0,"running":0,"scheduled":2}]"#)
    }

    @Test("the slots of a worker without space do not count while another has space") func slotsWithoutSpace()
        async throws
    {
        let fixture = try await WebFixture()
        for number in 0..<3 { _ = await fixture.push(#"{"url":"http://a.example/\#(number)"}"#) }
        let stats = try await fixture.queue.stats()
        func found(_ workers: [String: String]...) -> [Bottleneck] {
            QueueLoad(
                stats: stats, workers: workers.map { $0.merging(["seen": "1000"]) { $1 } }, settings: [:], limits: [:],
                backoffs: [:], running: [], now: 1000
            ).bottlenecks
        }
        let full = ["free": "0", "slots": "8", "running": "0"]
        let busy = ["free": "1", "slots": "2", "running": "2"]
        #expect(found(full, busy) == [Bottleneck(.slots, queued: 3, limit: 2)])
        #expect(found(full, ["free": "1", "slots": "2", "running": "1"]) == [])
        #expect(found(full, ["slots": "2", "running": "1"]) == [], "a bucket has no limit of space")
        #expect(found(full, full) == [Bottleneck(.disk, queued: 3)])
    }

    @Test("limits hold in each partition, so a queue of partitions reaches a multiple of them") func partitions()
        async throws
    {
        let fixture = try await WebFixture()
        var stats = try await fixture.queue.stats()
        stats.partitions = 8
        func found(_ speed: Int64) -> [Bottleneck] {
            let job = QueueLoad.RunningJob(host: "h", group: nil, waiting: nil, speed: speed)
            return QueueLoad(
                stats: stats, workers: [], settings: ["rate": "10"], limits: ["h": #"{"rate":5}"#], backoffs: [:],
                running: [job], now: 1000
            ).bottlenecks.filter { $0.cause != .noWorker }
        }
        #expect(found(20) == [])
        #expect(found(39) == [Bottleneck(.hostRate, "h", running: 1, limit: 40)])
        #expect(Set(found(75).map(\.limit)) == [40, 80])
    }

    @Test(
        "the limits of a host hold back its own jobs, whatever form its name has",
        arguments: ["h.example", "h.example:8080", "[::1]", "[2001:db8::1]:80"])
    func hostNames(_ name: String) async throws {
        let fixture = try await WebFixture()
        let url = "http://\(name)/a"
        let host = try #require(MaskedURL.host(url))
        let load = QueueLoad(
            stats: try await fixture.queue.stats(), workers: [], settings: [:], limits: [name: #"{"rate":5}"#],
            backoffs: [:],
            running: [QueueLoad.RunningJob(host: host, group: nil, waiting: nil, speed: 5)], now: 1000)
        let found = try #require(load.bottlenecks.first { $0.cause == .hostRate })
        #expect(found.name == name && found.running == 1)
    }

    @Test("running jobs whose workers are all lost wait for a worker, even if nothing is queued")
    func lostWorkers() async throws {
        let fixture = try await WebFixture()
        try await Self.run(fixture, "r", ["url": "http://a.example/r", "worker": "w1"])
        try await Self.setWorker(fixture, slots: "2", running: 1)
        #expect(try await Self.found(fixture) == [])
        let keys = fixture.queue.keys
        _ = try await fixture.queue.redis.send(Command("HSET", keys.worker("w1"), "seen", 1))
        #expect(try await Self.found(fixture) == [Bottleneck(.noWorker, running: 1)])
        let job = try #require(try await fixture.queue.job("r"))
        #expect(try await QueueReaderCache(fixture.queue).bottlenecks(of: job).map(\.cause) == [.noWorker])
        _ = try await fixture.queue.redis.send(
            Command("HSET", keys.worker("w1"), "seen", try await fixture.queue.time() + 60_000, "state", "quiet"))
        #expect(try await Self.found(fixture) == [])
    }

    @Test("jobs wait for a host's limit of jobs or starts, or for the end of its back-off") func hosts() async throws {
        let fixture = try await WebFixture()
        let (redis, keys, now) = (
            fixture.queue.redis, fixture.queue.keys, try await fixture.queue.time()
        )
        try await Self.setWorker(fixture, slots: "unlimited", running: 0)
        for host in ["a.example", "b.example:81", "c.example"] {
            try await redis.send(
                Command("LPUSH", keys.prefix + "deferred_host:\(host)", #"{"url":"http://\#(host)/x","id":"d"}"#))
            try await redis.send(Command("ZADD", keys.prefix + "deferred_hosts", now, host))
        }
        try await fixture.queue.setLimit(of: "a.example", to: #"{"connections":1,"starts":"10/s"}"#)
        try await fixture.queue.setLimit(of: "b.example:81", to: #"{"connections":4,"starts":"10/s"}"#)
        try await redis.send(Command("SET", keys.prefix + "backoff:c.example", now + 60_000, "PX", 60_000))
        try await Self.run(fixture, "r", ["url": "http://a.example/r", "speed": "5"])
        try await Self.run(fixture, "s", ["url": "http://a.example/s", "waiting": "host"])
        let found = try await Self.found(fixture)
        #expect(
            found == [
                Bottleneck(.host, "a.example", queued: 1, running: 1, limit: 1),
                Bottleneck(.backoff, "c.example", queued: 1, until: now + 60_000),
                Bottleneck(.hostStarts, "b.example:81", queued: 1, starts: "10/s"),
            ])
        let reader = QueueReaderCache(fixture.queue)
        let waiting = try #require(try await fixture.queue.job("s"))
        #expect(try await reader.bottlenecks(of: waiting).map(\.cause) == [.host])
        let receiving = try #require(try await fixture.queue.job("r"))
        #expect(try await reader.bottlenecks(of: receiving) == [])
        let queued = JobRecord(id: "q", state: .queued, fields: ["url": "http://b.example:81/q"])
        #expect(try await reader.bottlenecks(of: queued).map(\.cause) == [.hostStarts])
    }

    @Test("a rate slows the jobs that use it up, of the queue, a host or a group") func rates() async throws {
        let fixture = try await WebFixture()
        try await Self.setWorker(fixture, slots: "unlimited", running: 4)
        for (id, host, speed) in [("a", "a.example", 400), ("b", "b.example", 500), ("c", "b.example", 100)] {
            try await Self.run(
                fixture, id, ["url": "http://\(host)/", "speed": "\(speed)", "group": id == "c" ? "acme" : ""])
        }
        try await Self.run(fixture, "d", ["url": "http://d.example/", "waiting": "disk"])
        try await fixture.queue.redis.send(Command("HSET", fixture.queue.keys.settings, "rate", "2000"))
        try await fixture.queue.setLimit(of: "b.example", to: #"{"rate":600}"#)
        try await fixture.queue.setLimit(of: "group:acme", to: #"{"rate":105}"#)
        try await fixture.queue.setLimit(of: "a.example", to: #"{"rate":9000}"#)
        let expected = [
            Bottleneck(.hostRate, "b.example", running: 2, limit: 600), Bottleneck(.disk, running: 1),
            Bottleneck(.groupRate, "acme", running: 1, limit: 105),
        ]
        #expect(try await Self.found(fixture) == expected)
        try await fixture.queue.redis.send(Command("HSET", fixture.queue.keys.settings, "rate", "1000"))
        #expect(try await Self.found(fixture) == [Bottleneck(.rate, running: 3, limit: 1000)] + expected)
        let reader = QueueReaderCache(fixture.queue)
        for (id, causes) in [
            ("a", [.rate]), ("b", [.rate, .hostRate]), ("c", [.rate, .hostRate, .groupRate]), ("d", [.disk]),
        ] as [(String, [Bottleneck.Cause])] {
            let job = try #require(try await fixture.queue.job(id))
            #expect(try await reader.bottlenecks(of: job).map(\.cause) == causes, "\(id)")
        }
    }

    @Test("jobs wait for a group's limit, and for a worker of their kind") func groups() async throws {
        let fixture = try await WebFixture()
        let (redis, keys) = (fixture.queue.redis, fixture.queue.keys)
        try await Self.setWorker(fixture, slots: "unlimited", running: 1)
        try await fixture.queue.setLimit(of: "group:acme", to: #"{"running":1}"#)
        try await Self.run(fixture, "r", ["url": "http://a.example/r", "group": "acme"])
        for number in 0..<2 {
            try await redis.send(
                Command(
                    "LPUSH", keys.prefix + "deferred_group:acme",
                    #"{"url":"http://a.example/x","group":"acme","id":"d\#(number)"}"#))
        }
        try await redis.send(Command("ZADD", keys.prefix + "deferred_groups", "200000000000000000", "acme"))
        try await redis.send(
            Command("LPUSH", keys.deferredKind("upload"), #"{"kind":"upload","url":"http://a.example/u","id":"u"}"#))
        try await redis.send(Command("HSET", keys.deferredKinds, "upload", "0"))
        let found = try await Self.found(fixture)
        #expect(
            found == [
                Bottleneck(.group, "acme", queued: 2, limit: 1), Bottleneck(.kind, "upload", queued: 1),
            ])
    }

    @Test("a changed limit counts in the next reading") func changed() async throws {
        let fixture = try await WebFixture()
        try await Self.setWorker(fixture, slots: "unlimited", running: 1)
        try await Self.run(fixture, "r", ["url": "http://a.example/r", "speed": "100"])
        func causes() async -> [String?] {
            (await fixture.get(Self.path).json?["bottlenecks"]?.array ?? []).map { $0["cause"]?.string }
        }
        #expect(await causes() == [])
        #expect(await fixture.send("PATCH", Self.path + "/settings", #"{"rate":100}"#).status == 200)
        #expect(await causes() == ["rate"])
    }
}
