import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// Figures that the page shows of many jobs at once: facets, hosts, ages, failures by error and host.
@Suite struct FactsTests {
    /// Writes the hashes of jobs, as a fleet would, and lists them in their state.
    private static func write(
        _ fixture: WebFixture, _ id: String, _ state: JobState, score: Int64, _ fields: [String]
    ) async throws {
        let keys = fixture.queue.keys
        try await fixture.queue.redis.send(
            Command(arguments: ["HSET", keys.job(id), "state", state.rawValue] + fields))
        try await fixture.queue.redis.send(Command("ZADD", keys.index(state), score, id))
    }

    @Test("numbers that no worker writes into a hash end no overview") func extremes() async throws {
        let fixture = try await WebFixture { $0.aria2 = .default }
        for (id, number) in [("a", "\(Int64.max)"), ("b", "\(Int64.max)"), ("c", "\(Int64.min)")] {
            let fields = ["speed", "total", "received", "started"].flatMap { [$0, number] }
            try await Self.write(fixture, id, .running, score: Int64.max >> 12, ["url", "http://h/\(id)"] + fields)
        }
        try await fixture.server.cli("HSET", fixture.queue.keys.job("b"), "received", "\(Int64.min)")
        for path in ["", "/facets?state=running", "/jobs?state=running&sort=speed", "/workers"] {
            #expect(await fixture.get("/api/queues/default" + path).status == 200, "\(path)")
        }
        let stat = await fixture.send("POST", "/jsonrpc", #"{"jsonrpc":"2.0","id":1,"method":"aria2.getGlobalStat"}"#)
        #expect(stat.status == 200 && stat.json?["result"] != nil, "\(stat.text)")
    }

    @Test("facets count the properties of running jobs, and a facet's filter finds as many") func facets() async throws
    {
        let fixture = try await WebFixture()
        _ = try await fixture.queue.register(WorkerIdentity(name: "w0", store: "s"), fields: [], known: [])
        let now = try await fixture.queue.time()
        for number in 0..<6 {
            var fields = [
                "url", "http://\(number < 4 ? "a" : "b").example/\(number)", "worker", "w\(number % 2)", "total", "100",
                "received", "40", "speed", "7", "started", "\(now - 1000)",
            ]
            if number == 5 { fields += ["waiting", "host", "kind", "upload", "batch", "night day", "group", "acme"] }
            try await Self.write(fixture, "j\(number)", .running, score: now + 60_000, fields)
        }
        let response = try #require(await fixture.get("/api/queues/default/facets?state=running").json)
        #expect(response["of"]?.integer == 6 && response["total"]?.integer == 6)
        #expect(response["host"]?.text == #"[["a.example",4],["b.example",2]]"#)
        #expect(response["worker"]?.text == #"[["w0",3],["w1",3]]"#)
        #expect(response["kind"]?.text == #"[["download",5],["upload",1]]"#)
        #expect(response["batch"]?.text == #"[["day",1],["night",1]]"#)
        #expect(response["group"]?.text == #"[["acme",1]]"#)
        #expect(response["waiting"]?.text == #"[["host",1]]"#)
        #expect(response["speed"]?.integer == 42 && response["left"]?.integer == 360)
        for (filter, number) in [
            ("kind=upload", 1), ("kind=download", 5), ("waiting=host", 1), ("waiting=none", 5), ("host=a.example", 4),
            ("group=acme", 1), ("group=bolt", 0),
        ] {
            let page = await fixture.get(WebFixture.jobs + "?state=running&\(filter)").json
            #expect(page?["jobs"]?.array?.count == number, "\(filter)")
        }
        for filter in ["kind=film", "retryable=maybe", "group=a%20b"] {
            #expect(await fixture.get(WebFixture.jobs + "?state=running&\(filter)").status == 400, "\(filter)")
        }
    }

    @Test("failures are grouped by error and host, with those of each five minutes of the last hour")
    func failures() async throws {
        let fixture = try await WebFixture()
        let now = try await fixture.queue.time()
        for (id, host, error, minutes, retryable) in [
            ("x1", "a", "http_503", 1, "1"), ("x2", "a", "http_503", 16, "1"), ("x3", "b", "http_404", 50, "0"),
            ("x4", "b", "http_404", 400, "0"), ("x5", "a", "http_503", 2, "1"),
        ] {
            try await Self.write(
                fixture, id, .failed, score: now - Int64(minutes) * 60_000,
                ["url", "http://\(host).example/", "error", error, "retryable", retryable])
        }
        let overview = try #require(await fixture.get("/api/queues/default").json)
        let groups = try #require(overview.at("failures", "groups")?.array)
        #expect(groups.count == 2 && overview.at("failures", "of")?.integer == 5)
        #expect(groups[0]["host"]?.string == "a.example" && groups[0]["count"]?.integer == 3)
        #expect(groups[0]["recent"]?.integer == 3 && groups[0]["retryable"] == .bool(true))
        #expect(groups[0]["example"]?.string == "x1" && groups[0]["newest"]?.integer == now - 60_000)
        #expect(groups[0]["hour"]?.text == "[0,0,0,0,0,0,0,0,1,0,0,2]")
        #expect(groups[1]["recent"]?.integer == 0 && groups[1]["retryable"] == .bool(false))
        #expect(groups[1]["hour"]?.text == "[0,1,0,0,0,0,0,0,0,0,0,0]")
        let page = await fixture.get(WebFixture.jobs + "?state=failed&retryable=true").json
        #expect(page?["jobs"]?.array?.count == 3)
    }

    @Test("groups of failed jobs that have the same size are sorted by host") func ties() async throws {
        let fixture = try await WebFixture()
        let now = try await fixture.queue.time()
        for number in 0..<9 {
            try await Self.write(
                fixture, "t\(number)", .failed, score: now,
                ["url", "http://h\(number).example/", "error", "dns", "retryable", "1"])
        }
        let groups = await fixture.get("/api/queues/default").json?.at("failures", "groups")?.array ?? []
        #expect(groups.compactMap { $0["host"]?.string } == (0..<9).map { "h\($0).example" })
    }

    @Test("a host has its jobs at work, what waits for it, its limits and its back-off") func hosts() async throws {
        let fixture = try await WebFixture()
        let now = try await fixture.queue.time()
        let keys = fixture.queue.keys
        try await fixture.queue.setLimit(of: "a.example", to: #"{"connections":2}"#)
        for number in 0..<2 {
            try await Self.write(
                fixture, "r\(number)", .running, score: now + 60_000,
                ["url", "http://a.example/\(number)", "speed", "50", "worker", "w1"])
        }
        for number in 0..<40 {
            _ = await fixture.push(#"{"url":"http://\#(number % 4 == 0 ? "b" : "c").example/\#(number)"}"#)
        }
        try await fixture.queue.redis.send(
            Command("LPUSH", keys.prefix + "deferred_host:a.example", #"{"url":"http://a.example/x","id":"d"}"#))
        try await fixture.queue.redis.send(Command("ZADD", keys.prefix + "deferred_hosts", now, "a.example"))
        try await fixture.queue.redis.send(
            Command("SET", keys.prefix + "backoff:a.example", now + 30_000, "PX", 30_000))
        let response = try #require(await fixture.get("/api/queues/default/hosts").json)
        let hosts = Dictionary(
            uniqueKeysWithValues: (response["hosts"]?.array ?? []).map { ($0["host"]?.string ?? "", $0) })
        #expect(response["total"]?.integer == 3 && hosts.count == 3)
        let first = try #require(hosts["a.example"])
        #expect(first["running"]?.integer == 2 && first["speed"]?.integer == 100 && first["deferred"]?.integer == 1)
        #expect(first["backoff_until"]?.integer == now + 30_000 && first.at("limits", "connections")?.integer == 2)
        #expect(hosts["b.example"]?["queued"]?.integer == 10 && hosts["c.example"]?["queued"]?.integer == 30)
        let worker = await fixture.get("/api/queues/default/workers").json?["workers"]?.array?.first
        #expect(worker?["speed"]?.integer == 100)
    }

    @Test("the jobs of a group without a host or an error are found, and retried, by the name of the group")
    func unknown() async throws {
        let fixture = try await WebFixture()
        let now = try await fixture.queue.time()
        try await Self.write(fixture, "x1", .failed, score: now, ["error", "dns"])
        try await Self.write(fixture, "x2", .failed, score: now, ["url", "http://a.example/", "error", "dns"])
        try await Self.write(fixture, "x3", .failed, score: now, ["url", "http://a.example/"])
        let groups = await fixture.get("/api/queues/default").json?.at("failures", "groups")?.array ?? []
        #expect(groups.count == 3)
        for group in groups {
            let (host, error) = (group["host"]?.string ?? "", group["error"]?.string ?? "")
            let selection = #"{"action":"retry","where":{"state":"failed","host":"\#(host)","error":"\#(error)"}}"#
            let response = await fixture.send("POST", WebFixture.control, selection)
            #expect(response.json?["requested"]?.integer == 1, "\(host) \(error): \(response.text)")
        }
    }

    @Test("a job obeys the limit of its host and port, and counts there; a filter finds it by either name")
    func ports() async throws {
        let fixture = try await WebFixture()
        let now = try await fixture.queue.time()
        for name in ["a.example", "a.example:8080", "[::1]"] {
            try await fixture.queue.setLimit(of: name, to: #"{"connections":4}"#)
        }
        for (id, url) in [
            ("r0", "http://a.example:8080/0"), ("r1", "http://A.example:8080/1?[masked]"), ("r2", "http://a.example/2"),
            ("r3", "http://a.example:81/3"), ("r4", "http://[::1]:81/4"), ("r5", "http://b.example:80"),
        ] {
            try await Self.write(fixture, id, .running, score: now + 60_000, ["url", url, "speed", "50"])
        }
        _ = await fixture.push(#"[{"url":"http://a.example:8080/5"},{"url":"http://u:p@a.example:8080/6"}]"#)
        let response = try #require(await fixture.get("/api/queues/default/hosts").json)
        let hosts = (response["hosts"]?.array ?? []).sorted { ($0["host"]?.string ?? "") < ($1["host"]?.string ?? "") }
        let rows = hosts.map { host in
            let numbers = ["running", "speed", "queued"].map { "\(host[$0]?.integer ?? -1)" }
            return "\(host["host"]?.string ?? "") \(numbers.joined(separator: " "))"
        }
        #expect(rows == ["[::1] 1 50 0", "a.example 2 100 0", "a.example:8080 2 100 2", "b.example 1 50 0"])
        for (host, number) in [
            ("a.example:8080", 2), ("a.example", 4), ("%5B::1%5D:81", 1), ("::1", 1), ("b.example:81", 0),
        ] {
            let page = await fixture.get(WebFixture.jobs + "?state=running&host=\(host)").json
            #expect(page?["jobs"]?.array?.count == number, "\(host)")
        }
        let queued = await fixture.get(WebFixture.jobs + "?state=queued&host=a.example:8080").json
        #expect(queued?["jobs"]?.array?.count == 2)
    }

    @Test("the last speed of a lost worker, or of one that is gone, counts nowhere") func lostWorkers() async throws {
        let fixture = try await WebFixture()
        let now = try await fixture.queue.time()
        for (id, worker) in [("r0", "w1"), ("r1", "silent"), ("r2", "gone")] {
            try await Self.write(
                fixture, id, .running, score: now + 60_000,
                ["url", "http://a.example/\(id)", "speed", "70", "worker", worker, "total", "100", "started", "\(now)"])
        }
        let keys = fixture.queue.keys
        try await fixture.queue.redis.send(
            Command("HSET", keys.worker("silent"), "state", "working", "seen", now - 60_000))
        try await fixture.queue.redis.send(Command("ZADD", keys.workers, now, "silent"))
        let queue = "/api/queues/default"
        #expect(await fixture.get(queue).json?["speed"]?.integer == 70)
        #expect(await fixture.get(queue + "/facets?state=running").json?["speed"]?.integer == 70)
        #expect(await fixture.get(queue + "/hosts").json?["hosts"]?.array?.first?["speed"]?.integer == 70)
        let workers = await fixture.get(queue + "/workers").json?["workers"]?.array ?? []
        #expect(
            Set(workers.map { "\($0["name"]?.string ?? "") \($0["speed"]?.integer ?? -1)" }) == ["w1 70", "silent 0"])
        let rows = await fixture.get(WebFixture.jobs + "?state=running").json?["jobs"]?.array ?? []
        #expect(rows.map { $0["speed"]?.integer } == [70, nil, nil])
        for (id, speed) in [("r0", 70), ("r1", nil), ("r2", nil)] as [(String, Int64?)] {
            #expect(await fixture.get(WebFixture.jobs + "/\(id)").json?["speed"]?.integer == speed, "\(id)")
        }
    }

    @Test("ages are the median, the 95th percentile and the oldest") func ages() throws {
        let text = try #require(Ages.json(of: (1...100).map { Int64($0) }, now: 100))
        let ages = try JSON(text)
        #expect(ages["of"]?.integer == 100 && ages["oldest"]?.integer == 99)
        #expect(ages["median"]?.integer == 50 && ages["p95"]?.integer == 95)
        #expect(Ages.json(of: [Int64](), now: 1) == nil)
    }

    @Test("a row has at most sixteen intervals, and the smallest gaps are closed") func intervals() {
        var offsets = ByteIntervals()
        for number in 0..<40 { offsets.insert(Int64(number * 100)..<Int64(number * 100 + (number % 2 == 0 ? 99 : 50))) }
        let merged = Array(JobRecord.merged(offsets).intervals)
        #expect(merged.count == 16 && merged.first?.lowerBound == 0 && merged.last?.upperBound == 3950)
        // A gap of one byte is closed before any of fifty.
        #expect(merged.allSatisfy { $0.lowerBound % 200 == 0 })
    }

    @Test("all queues of the server are summarized by one call") func queues() async throws {
        let fixture = try await WebFixture()
        _ = await fixture.push(#"[{"url":"http://h/1"},{"url":"http://h/2"}]"#)
        let queues = await fixture.get("/api/queues").json?["queues"]?.array
        #expect(queues?.count == 1 && queues?.first?["queued"]?.integer == 2)
        #expect(queues?.first?["paused"] == .bool(false) && queues?.first?["queue"]?.string == "default")
    }

    @Test("a worker is made quiet by a setting, and takes jobs again") func quiet() async throws {
        let fixture = try await WebFixture()
        let path = "/api/queues/default/settings"
        let set = await fixture.send("PATCH", path, #"{"quiet":{"w1":true}}"#)
        #expect(set.status == 200 && set.json?.at("quiet", "w1") == .bool(true), "\(set.text)")
        #expect(try await fixture.server.cli("HGET", fixture.queue.keys.settings, "quiet:w1") == "1")
        #expect(await fixture.send("PATCH", path, #"{"quiet":{"w1":false}}"#).json?["quiet"] == nil)
        #expect(try await fixture.server.cli("HEXISTS", fixture.queue.keys.settings, "quiet:w1") == "0")
        let unknown = await fixture.send("PATCH", path, #"{"rate":7,"quiet":{"nosuch":true}}"#)
        #expect(unknown.status == 404 && unknown.text.contains("the worker nosuch is not known"), "\(unknown.text)")
        #expect(try await fixture.server.cli("HEXISTS", fixture.queue.keys.settings, "rate") == "0")
        // What was set for a worker that has gone can be taken back.
        #expect(await fixture.send("PATCH", path, #"{"quiet":{"nosuch":false}}"#).status == 200)
        for body in [#"{"quiet":{"w 1":true}}"#, #"{"quiet":{"w1":1}}"#, #"{"quiet":true}"#] {
            #expect(await fixture.send("PATCH", path, body).status == 422, "\(body)")
        }
    }
}
