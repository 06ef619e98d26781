import Foundation
import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// What the API changes, and for whom: settings, operations for jobs, and viewers, who change nothing.
@Suite struct APIControlTests {
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
            (#"{"rate":"full 22:00-06:00 Europe/Nowhere, 2M"}"#, "rate: the time zone Europe/Nowhere is not in"),
            (#"{"limits":{"slow":{"rate":"full 22:00-06:00 Europe/Nowhere, 2M"}}}"#, "limits of slow: the time zone"),
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

    @Test("a viewer sees no secret and changes nothing") func viewers() async throws {
        let hash = PasswordHash(password: "p", cost: 4).text
        let accounts = try Accounts("v viewer \(hash)\no operator \(hash)")
        let fixture = try await WebFixture { $0.accounts = accounts }
        let viewer = [(name: "authorization", value: "Basic djpw")]
        let operating = [(name: "authorization", value: "Basic bzpw")]
        #expect(await fixture.get("/api/session").status == 401)
        #expect(await fixture.get("/").status == 401)
        #expect(await fixture.get("/healthz").status == 200)

        let job = #"{"url":"http://user:planted@example.org/a.bin?sig=planted","id":"a","headers":{"X-Key":"planted"}}"#
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
            (#","where":{"state":"queued","batch":""}"#, "where.batch is empty"),
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
        let empty = ["kind", "retryable", "group", "batch", "host", "q", "url"].map { "?state=queued&\($0)=" }
        for target in ["?batch=a%20b", "/a?line=maybe"] + empty {
            #expect(await fixture.get(WebFixture.jobs + target).status == 400, "\(target)")
        }
    }

    @Test("an action for all running jobs includes one that began after the list was shown") func fresh() async throws {
        let fixture = try await WebFixture()
        for id in ["a", "b"] {
            _ = await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)","batch":"all"}"#)
            _ = try await fixture.claim()
            for filter in ["", "&batch=all"] {
                #expect(await fixture.get(WebFixture.jobs + "?state=running" + filter).status == 200)
            }
            let cancel = #"{"action":"cancel","where":{"state":"running"}}"#
            let response = await fixture.send("POST", WebFixture.control, cancel)
            #expect(response.json?["requested"]?.integer == 1, "\(id): \(response.text)")
        }
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

    @Test("a job that is not removed because another operation waits for it is not counted, and is named")
    func waitingOperation() async throws {
        let fixture = try await WebFixture()
        let keys = fixture.queue.keys
        for id in ["a", "b"] {
            try await fixture.queue.redis.send(Command("HSET", keys.job(id), "state", "failed"))
            try await fixture.queue.redis.send(Command("ZADD", keys.index(.failed), 1, id))
        }
        try await fixture.queue.request(.running, of: ["a"])
        let byID = await fixture.send(
            "POST", WebFixture.control, #"{"action":"remove","ids":["a","b"],"state":"failed"}"#)
        #expect(byID.text == #"{"requested":1,"more":false,"left_out":["a"]}"#)
        let byState = await fixture.send(
            "POST", WebFixture.control, #"{"action":"delete","where":{"state":"failed"}}"#)
        #expect(byState.json?["requested"]?.integer == 0, "\(byState.text)")
    }

    @Test("a state beside ids leaves out the jobs that have left it") func states() async throws {
        let fixture = try await WebFixture()
        let keys = fixture.queue.keys
        for (id, state) in [("a", "failed"), ("b", "running"), ("c", "completed")] {
            try await fixture.queue.redis.send(Command("HSET", keys.job(id), "state", state))
        }
        func request(_ rest: String) async -> WebFixture.Response {
            await fixture.send("POST", WebFixture.control, #"{"action":"remove",\#(rest)}"#)
        }
        func wanted() async throws -> [String] {
            let all = try await fixture.server.cli("HKEYS", keys.prefix + "want")
            _ = try await fixture.server.cli("DEL", keys.prefix + "want")
            return all.split(separator: "\n").map(String.init).sorted()
        }
        let failed = await request(#""ids":["a","b","c","d"],"state":"failed""#)
        #expect(failed.status == 202 && failed.json?["requested"]?.integer == 1, "\(failed.text)")
        #expect(try await wanted() == ["a"])
        #expect(await request(#""ids":["a","b"],"state":"paused""#).json?["requested"]?.integer == 0)
        #expect(try await wanted() == [])
        // No worker has seen the job d, and a newer push of c waits.
        _ = await fixture.push(#"{"url":"http://h.example/c","id":"c"}"#)
        let some = await request(#""ids":["a","b","c","d"],"state":"queued""#)
        #expect(some.json?["requested"]?.integer == 2 && some.json?["left_out"]?.text == #"["a","b"]"#, "\(some)")
        #expect(try await wanted() == ["c", "d"])
        let open = await request(#""ids":["a","b","c","d"],"state":["queued","running"]"#)
        #expect(open.json?["requested"]?.integer == 3 && open.json?["left_out"]?.text == #"["a"]"#, "\(open)")
        #expect(try await wanted() == ["b", "c", "d"])
        let twice = await request(#""ids":["a","b","b","a"],"state":["queued","running"]"#)
        #expect(twice.json?["requested"]?.integer == 1 && twice.json?["left_out"]?.text == #"["a"]"#, "\(twice)")
        #expect(await request(#""ids":["b","c","b"]"#).json?["requested"]?.integer == 2)
        #expect(try await wanted() == ["b", "c"])
        for rest in [
            #""ids":["a"],"state":"ended""#, #""ids":["a"],"state":[]"#, #""ids":["a"],"state":["failed",1]"#,
            #""ids":["a"],"state":1"#, #""batch":"n","state":"failed""#,
        ] {
            #expect(await request(rest).status == 422, "\(rest)")
        }
        #expect(try await wanted() == [])
    }
}
