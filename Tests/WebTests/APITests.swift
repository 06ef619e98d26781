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

    @Test("a record is not read for callers that wait for its end, and is read once when it has come")
    func sharedWait() async throws {
        let fixture = try await WebFixture()
        let redis = fixture.queue.redis
        func calls(_ command: String) async throws -> Int {
            let stats = try await redis.send(Command("INFO", "commandstats")).string ?? ""
            let line = stats.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):calls=") }
            return line.flatMap { Int($0.split(separator: "=")[1].prefix(while: \.isNumber)) } ?? 0
        }
        _ = await fixture.push(#"{"url":"\#(Self.url)","id":"film"}"#)
        let claim = try #require(try await fixture.claim())
        let (records, reads) = (try await calls("hgetall"), try await calls("hmget"))
        let ends = Task {
            await withTaskGroup(of: WebFixture.Response.self) { group in
                for _ in 0..<50 { group.addTask { await fixture.get(WebFixture.jobs + "/film/wait?timeout=60") } }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
        try await eventually("the callers to wait") { try await calls("hmget") > reads + 54 }
        #expect(try await calls("hgetall") == records)
        try await fixture.settle(claim, WebFixture.done)
        let settled = try await calls("hgetall")
        let responses = await ends.value
        #expect(responses.allSatisfy { $0.status == 200 && $0.json?["state"]?.string == "completed" })
        #expect(try await calls("hgetall") - settled < 20)
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
        #expect(names("SettingsChange") == settings && names("Settings") == settings.union(["ignored", "differs"]))
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

    @Test("wait answers 404 only if the job is not known, and never because Redis has failed") func failedWait()
        async throws
    {
        let fixture = try await WebFixture()
        let target = "/api/queues/default/jobs/a/wait?timeout=0"
        #expect(await fixture.get(target).status == 404)
        _ = await fixture.push(#"{"url":"http://h/a","id":"a"}"#)
        let waiting = await fixture.get(target)
        #expect(waiting.status == 202 && waiting.json?["state"]?.string == "queued", "\(waiting)")
        try await fixture.server.cli("ACL", "SETUSER", "default", "-lrange")
        let failed = await fixture.get("/api/queues/default/jobs/b/wait?timeout=0")
        #expect(failed.status == 502, "\(failed)")
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
