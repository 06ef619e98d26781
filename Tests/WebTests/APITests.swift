import Foundation
import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

@Suite struct APITests {
    private static let url = "http://user:planted@example.org/a.bin?sig=planted"

    @Test("a service without access to Redis pushes, watches and controls jobs through the API") func service()
        async throws
    {
        let fixture = try await WebFixture()
        let pushed = await fixture.push(#"{"url":"\#(Self.url)","id":"film","meta":{"a":[1]}}"#)
        #expect(pushed.status == 202)
        let at = try #require(pushed.json?.at("pushed")?.array?.first?["at"]?.integer)
        #expect(await fixture.get(WebFixture.jobs + "/film").status == 404)
        #expect(await fixture.get(WebFixture.jobs + "/nobody/wait?timeout=0").status == 404)
        // It waits in the queue, and its producer must not consider it lost.
        #expect(await fixture.get(WebFixture.jobs + "/film/wait?timeout=0").status == 202)
        let unseen = await fixture.get(WebFixture.jobs + "/film/wait?timeout=0&since=\(at)")
        #expect(unseen.status == 202 && unseen.json?["state"]?.string == "queued")
        let claim = try #require(try await fixture.claim())
        let job = await fixture.get(WebFixture.jobs + "/film").json
        #expect(job?["state"]?.string == "running" && job?["url"]?.string == "http://example.org/a.bin?[masked]")
        #expect(job?["meta"]?.text == #"{"a":[1]}"# && job?["ended"] == .bool(false))

        async let end = fixture.get(WebFixture.jobs + "/film/wait?timeout=20&since=\(at)")
        try await fixture.settle(claim, WebFixture.done)
        #expect(await end.status == 200)
        #expect(await end.json?["state"]?.string == "completed")
        #expect(await fixture.get(WebFixture.jobs + "/film/wait?timeout=0&since=\(at + 100_000)").status == 202)

        #expect(await fixture.send("POST", WebFixture.control, #"{"action":"remove","ids":["film"]}"#).status == 202)
        try await fixture.tick()
        try await eventually("the job to be removed") {
            await fixture.get(WebFixture.jobs + "/film").status == 404
        }
    }

    @Test(
        "an invalid job is refused, and none of its request is pushed",
        arguments: [
            ("{", 400), (#"{"url":"ftp://x/"}"#, 422), (#"{"url":"http://h/","speed":1}"#, 422), ("[]", 422),
            ("3", 422),
            (#"[{"url":"http://h/"},{"id":"x"}]"#, 422),
        ])
    func invalid(body: String, status: Int) async throws {
        let fixture = try await WebFixture()
        let response = await fixture.push(body)
        #expect(response.status == status && response.json?["message"]?.string != nil)
        #expect(try await fixture.queue.count(in: .queued) == 0)
    }

    @Test("lists have the order of ages from either end, and are sorted by other properties among their first jobs")
    func sorting() async throws {
        let fixture = try await WebFixture()
        let keys = fixture.queue.keys
        for number in 0..<2100 {
            // The newest is the smallest, and all have one of three hosts.
            let id = "f\(number + 1000)"
            _ = try await fixture.queue.redis.pipeline([
                .command(Command("ZADD", keys.index(.failed), 1_700_000_000_000 + number, id)),
                .command(
                    Command(
                        "HSET", keys.job(id), "state", "failed", "url", "http://h\(number % 3).example/\(id)", "total",
                        5000 - number)),
            ])
        }
        for number in 0..<3 { #expect(await fixture.push(#"{"url":"http://h/","id":"q\#(number)"}"#).status == 202) }
        func ids(_ query: String) async -> [String] {
            let page = await fixture.get(WebFixture.jobs + "?" + query).json
            return (page?["jobs"]?.array ?? []).compactMap { $0["id"]?.string }
        }
        #expect(await ids("state=failed&limit=2") == ["f3099", "f3098"])
        #expect(await ids("state=failed&limit=2&from=2098") == ["f1001", "f1000"])
        #expect(await ids("state=failed&limit=2&reverse=true") == ["f1000", "f1001"])
        #expect(await ids("state=failed&limit=2&sort=age&from=1") == ["f1001", "f1002"])
        #expect(await ids("state=failed&limit=2&sort=age&reverse=true&host=h1.example") == ["f3098", "f3095"])
        #expect(await ids("state=queued&reverse=true&limit=2") == ["q2", "q1"])
        #expect(await ids("state=queued&reverse=true&limit=2&from=1&q=http") == ["q1", "q0"])
        // The 100 oldest, which are the largest, are not among those that are sorted.
        #expect(await ids("state=failed&sort=size&limit=2") == ["f1100", "f1101"])
        #expect(await ids("state=failed&sort=size&limit=2&reverse=true") == ["f3099", "f3098"])
        #expect(await ids("state=failed&sort=host&limit=1&from=1999") == ["f3099"])
        let sorted = await fixture.get(WebFixture.jobs + "?state=failed&sort=size&limit=2").json
        #expect(sorted?["examined"]?.integer == 2000 && sorted?["total"]?.integer == 2100)
        #expect(sorted?["next"]?.integer == 2)
        let refused = await fixture.get(WebFixture.jobs + "?state=failed&sort=colour")
        #expect(refused.status == 400 && refused.json?["message"]?.string?.contains("not \"colour\"") == true)
    }

    @Test("a search finds waiting jobs, however their elements are written", arguments: [false, true])
    func searchWaiting(isSeen: Bool) async throws {
        let fixture = try await WebFixture()
        let elements = [
            #"{"url":"http://a.example/Plain.bin","id":"plain"}"#,
            #"{"url":"http:\/\/a.example\/escaped.bin","id":"escaped"}"#,
            #"{"url":"http://user:word@secret.example/x?plain=1","id":"credentials"}"#,
            #"{"url":"http://a.example/unnamed"}"#,
            #"{"url":"http://a.example/caf\u00e9","id":"accent"}"#, "no job",
            #"{"url":"http://b.example:81/y","id":"NESTED","meta":{"id":"z"}}"#,
        ]
        let redis = Redis(try RedisURL(fixture.server.url), name: "test")
        for element in elements { try await redis.send(Command("LPUSH", fixture.queue.keys.jobs, element)) }
        if isSeen { try await redis.send(Command("HSET", fixture.queue.keys.job("accent"), "message", "Broken pipe")) }
        func found(_ query: String) async -> [String]? {
            let page = await fixture.get(WebFixture.jobs + "?state=queued&" + query).json
            #expect(page?["next"] == nil && page?["examined"]?.integer == Int64(elements.count), "\(query)")
            return page?["jobs"]?.array?.compactMap { $0["id"]?.string }
        }
        #expect(await found("q=plain.BIN") == ["plain"])
        #expect(await found("q=escaped.bin") == ["escaped"])
        #expect(await found("q=http://secret.example") == ["credentials"])
        #expect(await found("q=x?[mask") == ["credentials"])
        #expect(await found("q=masked") == ["credentials"])
        #expect(await found("q=plain%3D1") == [])
        #expect(await found("q=word") == [])
        #expect(await found("q=unnamed")?.count == 1)
        #expect(await found("q=nested") == ["NESTED"])
        #expect(await found("host=b.example") == ["NESTED"])
        #expect(await found("host=secret.example") == ["credentials"])
        #expect(await found("q=broken") == (isSeen ? ["accent"] : []))
        #expect(await found("error=dns") == [])
    }

    @Test("a job has its host once, while it counts at a limited host as well") func host() async throws {
        let fixture = try await WebFixture()
        _ = await fixture.push(#"{"url":"http://A.example/f","id":"j"}"#)
        let redis = Redis(try RedisURL(fixture.server.url), name: "test")
        try await redis.send(Command("HSET", fixture.queue.keys.limits, "a.example", #"{"connections":1}"#))
        _ = try #require(try await fixture.claim())
        #expect(try await redis.send(Command("HGET", fixture.queue.keys.job("j"), "host")).string == "a.example")
        let text = await fixture.get(WebFixture.jobs + "/j").text
        let hosts = text.components(separatedBy: #""host":"#).dropFirst()
        #expect(hosts.count == 1 && hosts.allSatisfy { $0.hasPrefix(#""a.example""#) }, "\(text)")
        await redis.close()
    }

    @Test("lists are read in pages and filtered") func lists() async throws {
        let fixture = try await WebFixture()
        let jobs = (0..<30).map { #"{"url":"http://\#($0 % 3 == 0 ? "a" : "b").example/f\#($0)?k=1","id":"j\#($0)"}"# }
        _ = await fixture.push("[\(jobs.joined(separator: ","))]")
        let queued = await fixture.get(WebFixture.jobs + "?state=queued&limit=10").json
        #expect(queued?["jobs"]?.array?.compactMap { $0["id"]?.string } == (0..<10).map { "j\($0)" })
        #expect(queued?["total"]?.integer == 30 && queued?["next"]?.integer == 10)
        #expect(queued?["jobs"]?.array?.first?["url"]?.string == "http://a.example/f0?[masked]")
        for number in 0..<30 {
            let claim = try #require(try await fixture.claim())
            let code: ErrorCode = number % 2 == 0 ? .http(404) : .dns
            try await fixture.settle(
                claim, .failed(Failure(code, "no <b>luck</b>"), retryable: true, received: 0))
        }
        let failed = await fixture.get(WebFixture.jobs + "?state=failed&host=a.example&error=dns").json
        #expect(
            Set(failed?["jobs"]?.array?.compactMap { $0["id"]?.string } ?? []) == ["j3", "j9", "j15", "j21", "j27"])
        #expect(failed?["next"] == nil && failed?["examined"]?.integer == 30)
        let found = await fixture.get(WebFixture.jobs + "?state=failed&q=F29%3f").json
        #expect(found?["jobs"]?.array?.first?["id"]?.string == "j29")

        let overview = await fixture.get("/api/queues/default").json
        #expect(overview?.at("counts", "failed")?.integer == 30)
        #expect(overview?.at("failures", "by_host")?.text == #"[["b.example",20],["a.example",10]]"#)
        #expect(overview?.at("failures", "by_error")?.text == #"[["dns",15],["http_404",15]]"#)

        let retry = #"{"action":"retry","where":{"state":"failed","host":"a.example"},"limit":4}"#
        let retried = await fixture.send("POST", WebFixture.control, retry).json
        #expect(retried?["requested"]?.integer == 4 && retried?["more"] == .bool(true))
        try await fixture.tick()
        #expect(try await fixture.queue.count(in: .queued) == 4)
        #expect(await fixture.get(WebFixture.jobs + "?state=none").status == 400)
        #expect(await fixture.get(WebFixture.jobs + "?limit=501").status == 400)
        // A filter that cannot be decoded must not select all jobs.
        for text in ["%zz", "zzz%ff", "%", "%4"] {
            #expect(await fixture.get(WebFixture.jobs + "?state=queued&q=\(text)").status == 400)
        }
    }

    @Test("a search ignores case in every script") func searchCase() async throws {
        let fixture = try await WebFixture()
        let jobs = (0..<1200).map {
            #"{"url":"http://a.example/f\#($0)","id":"j\#($0)","path":"Ärger/Film-\#($0)"}"#
        }
        for part in [jobs[..<1000], jobs[1000...]] { _ = await fixture.push("[\(part.joined(separator: ","))]") }
        for _ in 0..<1200 { _ = try await fixture.claim() }
        // One call searches only for a short time. The next one continues at `next`.
        func found(_ query: String) async -> [String] {
            var (ids, examined, next): ([String], Int64, Int64?) = ([], 0, 0)
            while let from = next {
                let page = await fixture.get(WebFixture.jobs + "?state=running&\(query)&from=\(from)").json
                ids += page?["jobs"]?.array?.compactMap { $0["id"]?.string } ?? []
                examined += page?["examined"]?.integer ?? 0
                next = page?["next"]?.integer
            }
            #expect(examined == 1200, "\(query)")
            return ids
        }
        #expect(
            await found("q=FILM-117&limit=500").sorted()
                == (["117"] + (0..<10).map { "117\($0)" }).map { "j" + $0 }.sorted())
        #expect(
            await found("q=%C3%A4RGER/film-42&limit=500").sorted()
                == (["42"] + (0..<10).map { "42\($0)" }).map { "j" + $0 }.sorted())
        #expect(await found("q=J1199") == ["j1199"])
        #expect(await found("worker=w1&q=f1199") == ["j1199"])
        #expect(await found("worker=w&q=f1199") == [])
        #expect(await found("host=a.exampl") == [])
        // A page behind the end has examined nothing.
        let beyond = await fixture.get(WebFixture.jobs + "?state=queued&from=100000&q=film").json
        #expect(beyond?["examined"]?.integer == 0 && beyond?["jobs"]?.array == [] && beyond?["next"] == nil)
    }

    @Test("the history is returned in steps of equal length") func historySteps() async throws {
        let fixture = try await WebFixture()
        let minute = try await fixture.queue.time() / 60_000
        func write(_ ago: Int64, _ what: String, _ count: Int) async throws {
            let place = minute - ago
            let key = fixture.queue.keys.history(hour: place / 60)
            try await fixture.server.cli("HINCRBY", key, "\(place % 60) \(what)", String(count))
        }
        for (ago, what, count) in [
            (0, "completed", 3), (0, "received", 900), (9, "failed", 2), (200, "completed", 50), (2000, "failed", 7),
        ] {
            try await write(Int64(ago), what, count)
        }
        func history(_ query: String) async throws -> JSON {
            try #require(await fixture.get("/api/queues/default/history" + query).json)
        }
        func numbers(_ json: JSON, _ name: String) -> [Int64] { json[name]?.array?.compactMap(\.integer) ?? [] }
        let hour = try await history("")
        let from = try #require(hour["from"]?.integer) / 60_000
        #expect(hour["step"]?.integer == 60_000 && numbers(hour, "completed").count == 60)
        #expect(numbers(hour, "completed")[Int(minute - from)] == 3 && numbers(hour, "completed").reduce(0, +) == 3)
        #expect(numbers(hour, "failed")[Int(minute - 9 - from)] == 2 && numbers(hour, "received").reduce(0, +) == 900)
        let days = try await history("?minutes=2880&step=30")
        #expect(numbers(days, "completed").count == 96 && numbers(days, "completed").reduce(0, +) == 53)
        #expect(numbers(days, "failed").reduce(0, +) == 9 && days["step"]?.integer == 1_800_000)
        // An hour that has ended is read from Redis only once.
        try await write(200, "completed", 1)
        #expect(numbers(try await history("?minutes=600&step=60"), "completed").reduce(0, +) == 53)
        for wrong in ["?minutes=0", "?minutes=2881", "?step=61", "?step=x"] {
            #expect(await fixture.get("/api/queues/default/history" + wrong).status == 400)
        }
    }

    @Test("/metrics has the figures of the queues, and requires a sign-in") func metrics() async throws {
        let accounts = try Accounts("v viewer \(PasswordHash(password: "p", cost: 4).text)")
        let fixture = try await WebFixture { $0.accounts = accounts }
        #expect(await fixture.get("/metrics").status == 401)
        _ = try await fixture.queue.push(now: [Element(JSON(#"{"url":"http://h/"}"#))])
        try await fixture.settle(try #require(try await fixture.claim()), WebFixture.done)
        try await fixture.tick()
        let page = await fixture.send("GET", "/metrics", fields: [(name: "authorization", value: "Basic djpw")])
        #expect(page.status == 200 && page["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        try await Promtool.check(page.text)
        for line in [
            "haul_queue_up{queue=\"default\"} 1", "haul_queue_jobs{queue=\"default\",state=\"completed\"} 1",
            "haul_queue_events_total{queue=\"default\",event=\"completed\"} 1",
            "haul_queue_claims_total{queue=\"default\"} 1",
            "haul_build_info{version=\"test\"} 1",
        ] { #expect(page.text.contains(line + "\n"), "\(line)\n\(page.text)") }
        #expect(page.text.contains("process_resident_memory_bytes "))
    }

    @Test("valid settings are changed, and invalid ones are refused") func settings() async throws {
        let fixture = try await WebFixture()
        let path = "/api/queues/default/settings"
        let set = await fixture.send("PATCH", path, #"{"paused":true,"max_running":7}"#)
        #expect(set.status == 200 && set.text == #"{"paused":true,"max_running":7}"#)
        #expect(await fixture.send("PATCH", path, #"{"paused":false,"max_running":null}"#).text == #"{"paused":false}"#)
        let night = #"{"paused":false,"rate":"full 22:00-06:00, 2M","limits":{"h":{"rate":"1k 8:00-9:00 UTC"}}}"#
        #expect(await fixture.send("PATCH", path, night).text == night)
        #expect(await fixture.send("PATCH", path, #"{"limits":{"h":null}}"#).status == 200)
        let many = #"""
            {"rate":1000,"starts":"30/min","keep_failed":3600,"base":"https://h/films/",
             "defaults":{"retries":2,"headers":{"X-A":"b"}},
             "limits":{"slow.example:8080":{"connections":3,"starts":"10/s","rate":5000}}}
            """#
        #expect(await fixture.send("PATCH", path, many).status == 200)
        #expect(
            await fixture.get(path).text
                == #"{"paused":false,"rate":1000,"starts":"30/min","keep_failed":3600,"base":"https://h/films/","defaults":"#
                + #"{"headers":{"X-A":"b"},"retries":2},"limits":{"slow.example:8080":{"connections":3,"starts":"10/s","rate":5000}}}"#
        )
        let before = try await fixture.queue.configuration()
        for (body, words) in [
            (#"{"max_running":-1}"#, "max_running must be"), (#"{"paused":1}"#, "paused must be true, false or null"),
            ("{}", "give a setting"), (#"{"color":1}"#, "color is not a setting"),
            (#"{"rate":0}"#, "rate must be"), (#"{"rate":"full 22-06"}"#, "like full 22:00-06:00 Europe/Berlin, 2M"),
            (#"{"starts":"often"}"#, "starts must be"), (#"{"rate":7,"keep_failed":1}"#, "keep_failed must be"),
            (#"{"rate":7,"defaults":{"retries":-1}}"#, "defaults.retries must be"),
            (#"{"defaults":{"url":"http://h/"}}"#, "url can have no default"),
            (#"{"defaults":[]}"#, "must be an object"),
            (#"{"base":"films/"}"#, "base must be"),
            (#"{"limits":{"Slow":{"connections":3}}}"#, "not a host name in lower case"),
            (#"{"limits":{"slow":{"connections":-1}}}"#, "limits of slow: must be"),
            (#"{"limits":{"slow":{"starts":"often"}}}"#, "limits of slow: must be"),
        ] {
            let response = await fixture.send("PATCH", path, body)
            #expect(response.status == 422, "\(body)")
            let message = response.json?["message"]?.string ?? ""
            #expect(message.contains(words) && message.hasSuffix("Nothing was set."), "\(body): \(message)")
        }
        let isSame = try await fixture.queue.configuration() == before
        #expect(isSame)
        let none =
            #"{"paused":null,"quiet":{"w":null},"rate":null,"starts":null,"keep_failed":null,"base":null,"defaults":{"retries":null,"headers":null},"limits":{"slow.example:8080":null}}"#
        #expect(await fixture.send("PATCH", path, none).text == #"{"paused":false}"#)
        // Values that were written by hand, which have no effect.
        try await fixture.server.cli("HSET", "haul:{default}:settings", "rate", "x", "quiet:w", "1")
        try await fixture.server.cli("HSET", "haul:{default}:defaults", "retries", "x")
        try await fixture.server.cli("HSET", "haul:{default}:limits", "h", "x")
        try await eventually("the settings to be read again") {
            await fixture.get(path).text
                == #"{"paused":false,"quiet":{"w":true},"ignored":["defaults.retries","limits.h","rate"]}"#
        }
    }

    @Test("a viewer sees no values of default header fields and queries, and no secrets of URLs among the settings")
    func maskedDefaults() async throws {
        let hash = PasswordHash(password: "p", cost: 4).text
        let accounts = try Accounts("v viewer \(hash)\no operator \(hash)")
        let fixture = try await WebFixture { $0.accounts = accounts }
        let path = "/api/queues/default/settings"
        let body = #"""
            {"base":"http://me:planted@h/?planted","defaults":{"headers":{"X-Key":"planted"},"query":{"key":"planted"},"retries":2,"notify":{"url":"https://me:planted@hooks.example/h?token=planted","secret":"billing","events":["failed"]}}}
            """#
        let operating = [(name: "authorization", value: "Basic bzpw")]
        let viewer = [(name: "authorization", value: "Basic djpw")]
        #expect(await fixture.send("PATCH", path, body, fields: viewer).status == 403)
        #expect(await fixture.send("PATCH", path, body, fields: operating).status == 200)
        let viewed = await fixture.send("GET", path, fields: viewer)
        #expect(viewed.status == 200 && !viewed.text.contains("planted"), "\(viewed.text)")
        #expect(viewed.json?.at("defaults", "headers", "X-Key")?.string == "[masked]")
        #expect(viewed.json?.at("defaults", "retries")?.integer == 2)
        #expect(viewed.json?.at("defaults", "notify", "url")?.string == "https://hooks.example/h?[masked]")
        #expect(viewed.json?.at("defaults", "notify", "events")?.text == #"["failed"]"#)
        let whole = await fixture.send("GET", path, fields: operating)
        #expect(whole.json?.at("defaults", "headers", "X-Key")?.string == "planted")
    }

    @Test("the API's description names every field of a job, every setting, and the fields of a response")
    func described() async throws {
        let schemas = try #require(
            try JSON(PageFiles.all.first { $0.name.hasSuffix("openapi.json") }!.bytes).at("components", "schemas"))
        func names(_ schema: String) -> Set<String> {
            Set((schemas.at(schema, "properties")?.members ?? []).map(\.name))
        }
        for kind in Job.Kind.allCases {
            let fields = JobField.all.filter { $0.kinds.contains(kind) }.map(\.name)
            #expect(names("New" + kind.rawValue.capitalized) == Set(fields).subtracting(["t"]))
        }
        let settings = Set(QueueSetting.fixed.map(\.name) + ["base", "defaults", "limits", "quiet"])
        #expect(names("SettingsChange") == settings && names("Settings") == settings.union(["ignored"]))
        for field in ["status", "headers", "body", "body_base64", "files", "response_dropped"] {
            #expect(names("Job").contains(field), "\(field)")
        }
    }

    @Test(
        "a viewer sees the status of a request, but neither header fields nor body of its response",
        arguments: ["body", "body_base64"])
    func responses(body: String) async throws {
        let hash = PasswordHash(password: "p", cost: 4).text
        let accounts = try Accounts("v viewer \(hash)\no operator \(hash)")
        let fixture = try await WebFixture { $0.accounts = accounts }
        let redis = Redis(try RedisURL(fixture.server.url), name: "test")
        let record = [
            "state", "completed", "kind", "request", "method", "POST", "status", "201", "headers",
            #"{"set-cookie":"planted"}"#, body, "planted", "url", "http://h/",
        ]
        try await redis.send(Command(arguments: ["HSET", fixture.queue.keys.job("r")] + record))
        let path = WebFixture.jobs + "/r"
        for target in [path, path + "/wait?timeout=0"] {
            let viewed = await fixture.send("GET", target, fields: [("authorization", "Basic djpw")])
            #expect(viewed.status == 200 && !viewed.text.contains("planted"), "\(viewed)")
            #expect(viewed.json?["status"]?.integer == 201)
            let whole = await fixture.send("GET", target, fields: [("authorization", "Basic bzpw")]).json
            #expect(whole?.at("headers", "set-cookie")?.string == "planted" && whole?[body]?.string == "planted")
        }
        let event = try JSON(
            #"{"event":"completed","status":201,"headers":{"a":"b"},"body":"c","body_base64":"d","seq":3}"#)
        #expect(Event.withoutResponse(event) == #"{"event":"completed","status":201,"seq":3}"#)
    }

    @Test("a viewer sees no secret and changes nothing") func viewers() async throws {
        let hash = PasswordHash(password: "p", cost: 4).text
        let accounts = try Accounts("v viewer \(hash)\no operator \(hash)")
        let fixture = try await WebFixture { $0.accounts = accounts }
        let viewer = [(name: "authorization", value: "Basic djpw")]
        let operating = [(name: "authorization", value: "Basic bzpw")]
        #expect(await fixture.get("/api/session").status == 401)
        #expect(await fixture.get("/").status == 401)
        #expect(await fixture.get("/healthz").status == 200)

        let job = #"{"url":"\#(Self.url)","id":"a","headers":{"X-Key":"planted"}}"#
        #expect(await fixture.send("POST", WebFixture.jobs, job, fields: viewer).status == 403)
        #expect(await fixture.send("POST", WebFixture.jobs, job, fields: operating).status == 202)
        try await fixture.server.cli("LPUSH", "haul:{default}:jobs", #"{"url":"ftp://x/?planted"}"#)
        let paths = [
            "", "/history", "/jobs?state=queued", "/jobs?state=running", "/jobs/a", "/jobs/a/pushed", "/rejected",
            "/workers",
        ]
        _ = try await fixture.claim()
        try await eventually("the element to be rejected") {
            _ = try await fixture.claim()
            return try await fixture.queue.rejected(limit: 1).count == 1
        }
        for path in paths {
            let response = await fixture.send("GET", "/api/queues/default" + path, fields: viewer)
            #expect(!response.text.contains("planted"), "\(path)")
        }
        let secret = await fixture.send("GET", WebFixture.jobs + "/a/pushed", fields: operating)
        #expect(secret.json?.at("pushed", "headers", "X-Key")?.string == "planted")
        let rejected = await fixture.send("GET", "/api/queues/default/rejected", fields: operating)
        #expect(rejected.text.contains("ftp://x/?planted"))
        #expect(await fixture.send("POST", WebFixture.control, "{}", fields: viewer).status == 403)
        #expect(await fixture.send("PATCH", "/api/queues/default/settings", "{}", fields: viewer).status == 403)
    }

    @Test("a hundred readers cost Redis as much as one") func sharedReads() async throws {
        let fixture = try await WebFixture()
        _ = await fixture.push(#"{"url":"http://h/a","id":"a"}"#)
        _ = await fixture.get("/api/queues/default")
        let before = try await fixture.server.statistic("total_commands_processed")
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<100 {
                group.addTask { _ = await fixture.get(WebFixture.jobs + "?state=queued") }
            }
        }
        let after = try await fixture.server.statistic("total_commands_processed")
        #expect(after - before < 20, "\(after - before) commands")
    }

    @Test(
        "a job or a batch named . or .. is reached with = before its name", arguments: [".", "..", "a"])
    func dots(_ name: String) async throws {
        let fixture = try await WebFixture()
        _ = await fixture.push(#"{"url":"http://h/a","id":"\#(name)","batch":"\#(name)"}"#)
        _ = try await fixture.claim()
        let path = "/api/queues/default/"
        #expect(await fixture.get(path + "jobs/=\(name)").json?["id"]?.string == name)
        #expect(await fixture.get(path + "jobs/=\(name)/wait?timeout=0").status == 202)
        #expect(await fixture.get(path + "jobs/%3D\(name)/pushed").status == 200)
        #expect(await fixture.get(path + "batches/=\(name)").json?["name"]?.string == name)
        #expect(await fixture.get(path + "jobs/==\(name)").status == 404)
    }

    @Test("an action that does not name its jobs clearly is refused, and changes nothing")
    func unclear() async throws {
        let fixture = try await WebFixture()
        _ = await fixture.push(#"{"url":"http://h/a","id":"a","batch":"b"}"#)
        for (selection, words) in [
            ("", "give one of ids"), (#","ids":["a"],"batch":"b""#, "give one of ids"),
            (#","ids":["a"],"where":{"state":"queued"}"#, "give one of ids"),
            (#","ids":["a"],"limit":1"#, "limit requires where"), (#","ids":"a""#, "ids must be"),
            (#","ids":null,"where":{"state":"queued"}"#, "give one of ids"),
            (#","where":{"state":"queued","host":7}"#, "where.host must be a string"),
            (#","where":{"state":"queued","q":null}"#, "where.q must be a string"),
            (#","where":{"state":"queued","batch":"a b"}"#, #"not "a b""#),
            (#","where":{"state":"asleep"}"#, "queued, scheduled"),
            (#","where":"queued""#, "must have a url, or a state"),
            (#","where":{"state":"queued"},"limit":"5""#, "limit must be"), (#","ids":["a"],"id":"b""#, "no id"),
        ] {
            let response = await fixture.send("POST", WebFixture.control, #"{"action":"cancel"\#(selection)}"#)
            let message = response.json?["message"]?.string ?? ""
            #expect(response.status == 422 && message.contains(words), "\(selection): \(response)")
        }
        #expect(try await fixture.server.cli("EXISTS", fixture.queue.keys.want) == "0")
        for target in ["?batch=a%20b", "/a?line=maybe"] {
            #expect(await fixture.get(WebFixture.jobs + target).status == 400, "\(target)")
        }
    }

    @Test("a parameter that a path does not have, or a repeated one, is refused and named, with those of the path")
    func parameters() async throws {
        let fixture = try await WebFixture()
        let queue = "/api/queues/default"
        for (target, words) in [
            (
                queue + "/jobs?stat=failed",
                #"no parameter "stat": its parameters are state, from, limit, sort, reverse"#
            ),
            (queue + "/jobs?state=failed&state=running", "parameter state is given more than once"),
            (queue + "/jobs?host=a&host=a", "parameter host is given"), (queue + "/jobs?=a", #"no parameter """#),
            (queue + "/batches?state=failed", "its parameters are from, limit"), (queue + "?x", "it has none"),
            ("/api/queues?limit=1", "it has none"), ("/api/session?a=1", "it has none"),
            (queue + "/events?ids=a", "its parameters are id"), (queue + "/history?minute=3", "minutes, step"),
            ("/api/live?watch=queues/default/jobs%3Fstat%3Dfailed", #"no parameter "stat""#),
            ("/api/live?events=default/a&events=default/b", "events is given"),
        ] {
            let response = await fixture.get(target)
            let message = response.json?["message"]?.string ?? ""
            #expect(response.status == 400 && message.contains(words), "\(target): \(response)")
        }
        let pushed = await fixture.send("POST", WebFixture.jobs + "?state=paused", #"{"url":"http://h/"}"#)
        #expect(pushed.status == 400 && pushed.json?["error"]?.string == "bad_request")
        #expect(await fixture.get("/api/live?watch=queues/default&watch=queues").status == 200)
    }

    @Test(
        "a control operation with a limit can be repeated until each waiting job has its operation, even without a worker"
    )
    func repeated() async throws {
        for ticks in [true, false] {
            let fixture = try await WebFixture()
            try await fixture.queue.setSetting("paused", to: "1")
            for number in 0..<25 {
                #expect(await fixture.push(#"{"url":"http://h/\#(number % 2)","id":"j\#(number)"}"#).status == 202)
            }
            func cancel(_ place: String) async throws -> (requested: Int64, more: Bool?) {
                let body = #"{"action":"cancel","where":\#(place),"limit":10}"#
                let response = await fixture.send("POST", WebFixture.control, body)
                #expect(response.status == 202, "\(response.text)")
                // A worker moves the operations to the jobs' hashes. Without one they stay in `want`.
                if ticks { try await fixture.tick() }
                return (response.json?["requested"]?.integer ?? -1, response.json?["more"].map { $0 == .bool(true) })
            }
            for (requested, more) in [(10, true), (10, true), (5, false), (0, false)] as [(Int64, Bool)] {
                let response = try await cancel(#"{"state":"queued"}"#)
                #expect(response.requested == requested && response.more == more, "\(response)")
            }
            #expect(try await cancel(#"{"url":"http://h/1"}"#).requested == 0)
            #expect(try await fixture.queue.stats().counts[.queued] == 25)
            // A newer push is not stopped by the earlier cancel, and another operation does not wait yet.
            try await Task.sleep(for: .milliseconds(2))
            #expect(await fixture.push(#"{"url":"http://h/1","id":"j1"}"#).status == 202)
            #expect(try await cancel(#"{"state":"queued"}"#).requested == 1)
            let paused = #"{"action":"pause","where":{"state":"queued"},"limit":10}"#
            #expect(await fixture.send("POST", WebFixture.control, paused).json?["more"] == .bool(true))
        }
    }

    @Test("ids, URLs and defaults of the description are those of an element")
    func newJob() throws {
        let page = try JSON(PageFiles.all.first { $0.name.hasSuffix("openapi.json") }!.bytes)
        let data = try Data(
            contentsOf: SchemaValidator.repository.appending(path: "docs/reference/schema/element.json"))
        let element = try JSON(data)
        let schemas = try #require(page.at("components", "schemas"))
        for (name, definition) in [("ID", "id"), ("URL", "url")] {
            #expect(schemas.at(name, "pattern") == element.at("$defs", definition, "pattern"))
        }
        let defaults = schemas.at("SettingsChange", "properties", "defaults", "properties")?.members ?? []
        #expect(Set(defaults.map(\.name)) == Set(QueueDefault.all.map(\.name)).subtracting(["base"]))
    }

    @Test("jobs are found and controlled by a whole URL, which other filters restrict") func urls() async throws {
        let fixture = try await WebFixture()
        for (id, query) in [("a", "sig=1"), ("b", "sig=1"), ("c", "sig=2")] {
            #expect(await fixture.push(#"{"url":"http://h/f?\#(query)","id":"\#(id)"}"#).status == 202)
        }
        func ids(_ query: String) async -> [String] {
            let page = await fixture.get(WebFixture.jobs + "?" + query)
            #expect(page.status == 200, "\(page.text)")
            return (page.json?["jobs"]?.array ?? []).compactMap { $0["id"]?.string }
        }
        let claim = try #require(try await fixture.claim())
        #expect(claim.run.id == "a")
        for name in ["url", "q"] {
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1") == ["a", "b"])
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&state=running") == ["a"])
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&host=other") == [])
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&reverse=true") == ["b", "a"])
            let byAge = await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&sort=age")
            #expect(byAge.sorted() == ["a", "b"])
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&sort=age&reverse=true") == byAge.reversed())
        }
        #expect(await ids("url=f") == [])
        #expect(await fixture.get(WebFixture.jobs + "?older=-1").status == 400)
        #expect(await ids("state=queued&older=3600") == [])
        #expect(await ids("state=queued&older=0").count == 2)
        for (action, place, count) in [
            ("pause", #"{"url":"http://h/f?sig=1"}"#, 2),
            ("cancel", #"{"url":"http://h/f?sig=1","state":"running"}"#, 1),
            ("pause", #"{"url":"http://h/f?sig=3"}"#, 0), ("pause", #"{"state":"running","older":3600}"#, 0),
        ] as [(String, String, Int64)] {
            let body = #"{"action":"\#(action)","where":\#(place)}"#
            let response = await fixture.send("POST", WebFixture.control, body)
            #expect(
                response.status == 202 && response.json?["requested"]?.integer == count, "\(place): \(response.text)")
        }
        for place in [#"{"host":"h"}"#, #"{"url":"h","older":-1}"#, #"{"url":"http://h/","state":"asleep"}"#] {
            let response = await fixture.send("POST", WebFixture.control, #"{"action":"pause","where":\#(place)}"#)
            #expect(response.status == 422, "\(place): \(response.text)")
        }
    }

    @Test("a queue that the server was not given cannot be reached") func otherQueues() async throws {
        let fixture = try await WebFixture()
        #expect(await fixture.get("/api/queues/other").status == 404)
        #expect(await fixture.send("POST", "/api/queues/other/jobs", #"{"url":"http://h/"}"#).status == 404)
        #expect(try await fixture.server.cli("KEYS", "haul:{other}*").isEmpty)
    }

    @Test("the response says so if Redis cannot be reached") func unreachable() async throws {
        let fixture = try await WebFixture()
        _ = await fixture.get("/api/queues/default")
        #expect(await fixture.get("/readyz").status == 200)
        fixture.server.signal(9)
        try await eventually("the health check to report it") { await fixture.get("/readyz").status == 503 }
        let response = await fixture.get(WebFixture.jobs + "?state=paused")
        #expect(response.status == 503 && response.json?["error"]?.string == "redis")
    }
}
