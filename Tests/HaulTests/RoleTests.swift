import Foundation
import HaulClient
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Each role of deploy/redis/users.acl suffices for its commands, and has no right that none of them needs.
@Suite struct RoleTests {
    private static let verbs: [(role: String, verbs: [String])] = [
        (
            "monitor",
            [
                "stats", "stats --history", "list", "list --state running", "list --state failed --json", "show done",
                "show due", "workers",
                "watch done", "top --once", "list --by host --state completed", "list --sort size",
                "stats --hosts", "stats --ages", "stats --failures", "stats --bottlenecks", "cache list", "cache size",
                "batches", "batches b", "queue changes", "events", "events --since 1h done",
            ]
        ),
        (
            "operator",
            [
                "list --state queued", "list --state rejected", "pause waiting", "pause --all", "resume --all",
                "cancel --all --yes", "retry --all", "remove done --files", "remove --all --yes", "top --once",
                "queue pause", "queue resume", "queue set default.retries 3", "queue unset default.retries",
                "queue show",
                "queue set limits.h {\"connections\":4,\"starts\":\"10/s\"}", "queue unset limits.h",
                "queue set starts 10/s",
                "queue limit 3", "queue limit none", "stats", "stats --history", "show done", "show due", "workers",
                "watch done",
                "cache size", "cache clear --older 9d",
                "batches", "cancel --batch b --yes", "queue changes",
                #"schedule add s --every 1h {"url":"http://h/s"}"#, "schedule list", "schedule pause s",
                "schedule resume s", "schedule run s", "schedule remove s", "events --since 1h",
            ]
        ),
        ("inspector", ["check --repair", "check", "queues"]),
        ("deploy", ["load-functions"]),
        ("producer", ["push http://h/a --reply-to me"]), ("service", []), ("web", []),
    ]

    /// Creates jobs in several states, and elements that no worker has claimed.
    private func fill(_ roles: Roles, _ options: [String] = []) async throws {
        let origin = try OriginServer { request in
            request.path == "/missing" ? OriginReply(404) : OriginReply(body: Array("small".utf8))
        }
        let root = TemporaryDirectory()
        try await roles.admin.send(Command("HSET", Roles.prefix + "settings", "event_stream", "1000"))
        let worker = try roles.start(
            "worker", ["worker", "--root", root.path, "--name", "w", "--allow-address", "127.0.0.0/8"] + options)
        for (id, path) in [("done", "/a"), ("missing", "/missing")] {
            _ = try await roles.cli(
                "producer",
                [
                    "LPUSH", Roles.prefix + "jobs",
                    #"{"url":"\#(origin.url(path))","id":"\#(id)","reply_to":"me","batch":"b"}"#,
                ])
        }
        _ = try await roles.cli("producer", ["LPUSH", Roles.prefix + "jobs", "nonsense"])
        let due = #"{"url":"\#(origin.url("/a"))","id":"due","delay":86400}"#
        _ = try await roles.cli("producer", ["LPUSH", Roles.prefix + "jobs", due])
        for (id, state) in [("done", "completed"), ("missing", "failed"), ("due", "scheduled")] {
            try await eventually("\(id) to be \(state): \(worker.standardError)", within: .seconds(30)) {
                try await roles.cli("monitor", ["HGET", Roles.prefix + "job:\(id)", "state"]) == state
            }
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait(within: .seconds(20)) == 0)
        _ = try await roles.cli("producer", ["LPUSH", Roles.prefix + "jobs", #"{"url":"http://h/","id":"waiting"}"#])
        // Elements that wait for a host, for a kind, for the turn of their group and at a worker.
        for command in [
            ["HSET", Roles.prefix + "limits", "slow", #"{"connections":0}"#],
            ["HSET", Roles.prefix + "hosts", "line slow", "1", "waiting", "1"],
            ["LPUSH", Roles.prefix + "deferred_host:slow", #"{"url":"http://slow/","id":"deferred"}"#],
            ["HSET", Roles.prefix + "deferred_kinds", "later", "9999999999999"],
            ["LPUSH", Roles.prefix + "deferred_kind:later", #"{"url":"http://h/","id":"later","kind":"later"}"#],
            ["ZADD", Roles.prefix + "deferred_groups", "0", "acme"],
            ["LPUSH", Roles.prefix + "deferred_group:acme", #"{"url":"http://h/","id":"turn","group":"acme"}"#],
            ["LPUSH", Roles.prefix + "held:w", #"{"url":"http://h/","id":"taken"}"#],
        ] { try await roles.admin.send(Command(arguments: command)) }
    }

    /// Breaks most rules of the bus.
    private func breakRules(_ roles: Roles) async throws {
        let key = { Roles.prefix + $0 }
        for command in [
            ["HSET", key("spec:orphan"), "spec", #"{"url":"http://h/x"}"#], ["ZADD", key("paused"), "1", "nobody"],
            ["HSET", key("job:none"), "settled_until", "1"], ["ZADD", key("deadlines"), "1", "nobody"],
            ["HSET", key("job:lost"), "state", "running", "token", "t", "worker", "gone"],
            ["HSET", key("spec:lost"), "spec", #"{"url":"http://h/x"}"#],
            ["HSET", key("job:lined"), "state", "queued", "ticket", "1"],
            ["HSET", key("spec:lined"), "spec", #"{"url":"http://h/x"}"#],
            ["PEXPIRE", key("job:lined"), "600000"], ["HSET", key("job:lined"), "crashes", "many"],
            ["HSET", key("job:alone"), "state", "running", "token", "t", "worker", "gone"],
            ["HSET", key("spec:alone"), "spec", #"{"url":"http://h/x"}"#],
            ["ZADD", key("leases"), "99999999999999", "alone"],
            ["LPUSH", key("held:gone"), #"{"url":"http://h/held","id":"held"}"#], ["LPUSH", key("reply:old"), "{}"],
            ["HSET", key("response_bytes"), "in all", "5"],
        ] {
            try await roles.admin.send(Command(arguments: command))
        }
    }

    @Test("each role suffices for its commands, and they need each of its rights") func roles() async throws {
        let roles = try await Roles()
        #expect(try await roles.haul("deploy", "load-functions").status == 0)
        try await fill(roles)
        try await breakRules(roles)
        for (role, verbs) in Self.verbs {
            // No worker applies the operator's requests, and `check` would report that.
            if role == "inspector" { try await roles.admin.send(Command("DEL", Roles.prefix + "want")) }
            let commands = try await roles.commands {
                for verb in verbs {
                    let (status, _, err) = try await roles.haul(role, verb)
                    #expect(status == 0, "\(role): haul \(verb): \(err)")
                }
                try await doMore(role, roles)
                try await signIn(role, roles)
            }
            try await expectAsked(role, commands, roles)
            guard role == "inspector" else { continue }
            // A check that goes on after a refusal would call a queue healthy that it has not read.
            let refused = try await roles.admin.send(Command("ACL", "LOG")).array ?? []
            #expect(
                refused.map(\.dictionary).allSatisfy { $0["username"] != role || $0["reason"] == "key" }, "\(refused)")
        }
    }

    /// Connects as with sentinels, which takes a right of its own: a server must say that it is the primary.
    private func signIn(_ role: String, _ roles: Roles) async throws {
        let sentinel = try await Sentinel(monitoring: roles.port)
        let url = [sentinel].url(user: "\(role):\(ShippedRoles.password(of: role))@")
        try await Redis(try RedisURL(url + "/1"), name: role).connect()
    }

    /// Runs what docs/ permits a role besides the command's verbs.
    private func doMore(_ role: String, _ roles: Roles) async throws {
        let key = { Roles.prefix + $0 }
        switch role {
        case "producer":
            for command in [
                ["WAIT", "0", "10"], ["BRPOP", key("reply:me"), "1"], ["RPOP", key("reply:me")],
                ["RPUSH", key("jobs"), #"{"url":"http://h/urgent","id":"urgent"}"#],
            ] {
                #expect(try await !roles.cli(role, command).contains("NOPERM"), "\(command)")
            }
        case "monitor", "operator":
            for command in [
                ["GET", key("tick")], ["HGET", key("job:done"), "seq"], ["HMGET", key("job:done"), "state", "error"],
                ["HLEN", key("offsets:done")], ["HGETALL", key("offsets:done")], ["EXISTS", key("offsets:done")],
                ["ZCOUNT", key("failed"), "0", "+inf"], ["ZRANGE", key("workers"), "0", "-1", "WITHSCORES"],
                ["INFO", "memory"], ["PING"], ["HGETALL", key("totals")], ["HGETALL", key("members:b")],
                // How far consumers of the events are behind: docs/operate/runbook.md.
                ["XLEN", key("log")], ["XINFO", "GROUPS", key("log")],
                // haul show URL
                ["HGET", key("urls"), "0123456789abcdef"], ["HSCAN", key("url:0123456789abcdef"), "0"],
            ] {
                #expect(try await !roles.cli(role, command).contains("NOPERM"), "\(role): \(command)")
            }
            if role == "operator" {
                #expect(try await !roles.cli(role, ["LINDEX", key("jobs"), "-1"]).contains("NOPERM"))
                // haul queue drain
                for command in [
                    ["HLEN", key("owed_steps")], ["ZCARD", key("unannounced")], ["LLEN", key("undelivered_replies")],
                ] { #expect(try await !roles.cli(role, command).contains("NOPERM"), "\(command)") }
                let destroy = ["XGROUP", "DESTROY", key("log"), "unused"]
                #expect(try await !roles.cli(role, destroy).contains("NOPERM"))
            }
            #expect(try await !roles.cli(role, ["XREAD", "STREAMS", key("log"), "0"]).contains("NOPERM"))
            let watch = try roles.start(role, ["watch"])
            try await eventually("haul watch to listen") {
                try await roles.admin.send(Command("PUBSUB", "NUMPAT")).int == 1
            }
            watch.kill(SIGINT)
            _ = try await watch.wait()
        case "inspector":
            // A queue that the role does not name is left out, and the others are listed.
            try await roles.admin.send(Command("LPUSH", "haul:{other}:jobs", "{}"))
            let queues = try await roles.haul(role, "queues")
            #expect(queues.status == 0 && queues.out.contains("default"), "\(queues)")
            #expect(queues.err.contains("this user may not read the queue other"), "\(queues)")
            // It reports the elements of a kind that no worker has asked for.
            try await roles.admin.send(Command("HSET", key("deferred_kinds"), "later", "1"))
            let check = try await roles.haul(role, "check")
            #expect(check.status == 1 && check.out.contains("deferred_kind:later"), "\(check)")
            // The queries of `check --root`, which looks only at files that are at least a minute old.
            for index in ["completed", "cancelled", "removed"] {
                #expect(try await !roles.cli(role, ["ZRANGE", key(index), "0", "999"]).contains("NOPERM"))
            }
        case "service":
            try await serve(roles)
            for command in [
                ["XGROUP", "CREATE", key("log"), "billing", "0"],
                ["XREADGROUP", "GROUP", "billing", "one", "COUNT", "1", "STREAMS", key("log"), ">"],
                ["XACK", key("log"), "billing", "1-1"], ["XPENDING", key("log"), "billing"],
                ["XAUTOCLAIM", key("log"), "billing", "two", "60000", "0"],
                ["XRANGE", key("log"), "-", "+"], ["XREAD", "STREAMS", key("log"), "0"],
            ] {
                #expect(try await !roles.cli(role, command).contains("NOPERM"), "\(command)")
            }
            // A subscription sends this after a silence.
            #expect(try await roles.cli(role, ["PING"]) == "PONG")
            // The Python client takes a reply like this, and acknowledges it.
            for command in [
                ["BLMOVE", key("reply:me"), key("reply:me:taken"), "RIGHT", "LEFT", "0.01"],
                ["LRANGE", key("reply:me:taken"), "0", "-1"], ["LREM", key("reply:me:taken"), "1", "{}"],
                ["PEXPIRE", key("reply:me:taken"), "604800000"],
            ] {
                #expect(try await !roles.cli(role, command).contains("NOPERM"), "\(command)")
            }
        case "web":
            try await browse(roles)
            // haul events --follow
            #expect(try await !roles.cli(role, ["XREAD", "STREAMS", key("log"), "0"]).contains("NOPERM"))
        default: break
        }
    }

    /// Runs everything that the library does.
    private func serve(_ roles: Roles) async throws {
        let queue = try HaulQueue(redis: Roles.url("service", of: roles.server))
        let handle = try await queue.push(Job("http://h/by-service"))
        // There is no replica, and the job is pushed all the same.
        _ = try? await queue.push(Job("http://h/kept"), .replicas(1, within: .milliseconds(10)))
        try await queue.push(Job("http://h/urgent-too"), to: .front)
        for state in JobState.allCases { _ = try await queue.ids(in: state) }
        for state in JobState.allCases { for try await _ in queue.list(state) {} }
        #expect(try await queue.job("done").status()?.state == .completed)
        #expect(try await queue.job("due").status()?.due != nil)
        _ = try await queue.ids(withURL: "http://h/by-service")
        _ = try await queue.stats()
        _ = try await queue.workers()
        try await roles.admin.send(Command("LPUSH", "haul:{default}:reply:service", #"{"event":"cancelled","id":"x"}"#))
        // The programs of docs/guides/producing.md take replies in this way.
        _ = try await roles.cli("service", ["BRPOP", Roles.prefix + "reply:nobody", "0.01"])
        for try await reply in try queue.replies(to: "service", open: { [queue.job("done", pushedAt: 1)] }) {
            try await reply.acknowledge()
            if reply.id == "x" { break }
        }
        _ = try await queue.job("done").result(timeout: .seconds(10))
        _ = try? await handle.result(timeout: .milliseconds(200))
        for try await _ in queue.job("done").events {}
        let listener = Task { for try await _ in queue.events {} }
        try await eventually("the subscription") {
            try await roles.admin.send(Command("PUBSUB", "NUMPAT")).int == 1
        }
        // All subscriptions share a connection, on which each may end before the others.
        _ = try? await handle.result(timeout: .milliseconds(200))
        let waiter = Task { try? await handle.result() }
        let channel = Roles.prefix + "events:\(handle.id)"
        try await eventually("the wait for one job") {
            try await roles.admin.send(Command("PUBSUB", "NUMSUB", channel)).array?.last?.int == 1
        }
        listener.cancel()
        try await eventually("the other subscription to end") {
            try await roles.admin.send(Command("PUBSUB", "NUMPAT")).int == 0
        }
        #expect(try await roles.admin.send(Command("PUBSUB", "NUMSUB", channel)).array?.last?.int == 1)
        waiter.cancel()
        #expect(try await queue.batch("b").status()?.completed == 1)
        try await queue.batch("b").pause()
        try await queue.schedule("night").add(.every(.seconds(3600)), Job("http://h/night"))
        #expect(try await queue.schedules().map(\.id) == ["night"])
        _ = try await queue.schedule("night").run()
        try await queue.schedule("night").remove()
        try await queue.pause([handle.id])
        await queue.close()
    }

    /// Requests everything that the page does.
    private func browse(_ roles: Roles) async throws {
        let socket = roles.directory.file("web")
        let web = try roles.start("web", ["web", "--listen", "unix:" + socket, "--aria2", "default"])
        func ask(_ path: String, _ more: String...) async throws -> String {
            let curl = try ChildProcess(
                "curl",
                ["-s", "--max-time", "10", "--unix-socket", socket, "-H", "Content-Type: application/json"] + more
                    + ["http://localhost" + path])
            _ = try await curl.wait(within: .seconds(20))
            return curl.standardOutput
        }
        try await eventually("the page") { try await ask("/readyz") == "ready\n" }
        let queue = "/api/queues/default"
        var paths = JobState.allCases.map { "/jobs?state=\($0.rawValue)" }
        paths += [
            "/jobs?state=queued&q=waiting", "", "/history", "/workers", "/settings", "/rejected", "/jobs/done",
            "/jobs/due",
            "/jobs/missing/pushed", "/jobs/done/wait", "/jobs/done/events", "/jobs/missing?line=true", "/batches",
            "/batches/b",
            "/jobs?state=completed&batch=b", "/jobs?url=http%3A%2F%2Fh%2Fby-page",
            "/changes",
        ]
        for path in paths {
            let answer = try await ask(queue + path)
            #expect(
                answer.hasPrefix("{") && !answer.contains(#""error":"redis""#) && !answer.contains("NOPERM"),
                "\(path): \(answer)")
        }
        let metrics = try await ask("/metrics")
        for name in ["events_total", "schedules", "kept_events"] {
            #expect(metrics.contains("\nhaul_queue_\(name){queue=\"default\""), "\(name)")
        }
        let body = "-d"
        #expect(try await ask(queue + "/jobs", body, #"{"url":"http://h/by-page"}"#).contains("pushed"))
        for request in [
            #"{"action":"pause","ids":["waiting"]}"#, #"{"action":"pause","batch":"b"}"#,
            #"{"action":"pause","where":{"state":"queued"}}"#,
        ] {
            #expect(try await ask(queue + "/control", body, request).contains("requested"), "\(request)")
        }
        for settings in [
            #"{"paused":true,"defaults":{"retries":3},"limits":{"h":{"connections":3}}}"#,
            #"{"paused":false,"defaults":{"retries":null},"limits":{"h":null}}"#,
        ] {
            #expect(try await ask(queue + "/settings", "-X", "PATCH", body, settings).contains("paused"))
        }
        let added = #"{"jsonrpc":"2.0","id":1,"method":"aria2.addUri","params":[["http://h/by-aria2"],{},0]}"#
        #expect(try await ask("/jsonrpc", body, added).contains("result"))
        let removed = #"{"jsonrpc":"2.0","id":1,"method":"aria2.removeDownloadResult","params":["done"]}"#
        #expect(try await ask("/jsonrpc", body, removed).contains("OK"))
        for (request, answer) in [
            (#"{"action":"add","name":"s","schedule":{"every":3600,"job":{"url":"http://h/s"}}}"#, "next"),
            (#"{"action":"pause","name":"s"}"#, "schedule"), (#"{"action":"run","name":"s"}"#, "id"),
            (#"{"action":"remove","name":"s"}"#, "schedule"),
        ] {
            #expect(try await ask(queue + "/schedules", body, request).contains(answer), "\(request)")
            #expect(try await ask(queue + "/schedules").contains(#"{"schedules":["#))
        }
        #expect(
            try await ask(queue + "/events", "--max-time", "2", "-H", "Last-Event-ID: 1").contains("completed"))
        for path in ["/events", "/events?id=done"] {
            #expect(try await ask(queue + path, "--max-time", "2").contains("subscribed"), "\(path)")
        }
        web.kill(SIGTERM)
        _ = try await web.wait(within: .seconds(20))
    }

    private func expectAsked(_ role: String, _ asked: Set<[String]>, _ roles: Roles) async throws {
        // The test itself has sent PUBSUB, and has pushed into another queue and onto a reply list.
        let commands = asked.filter {
            $0.first != "pubsub" && $0 != ["lpush", "haul:{other}:jobs", "{}"]
                && $0.prefix(2) != ["lpush", "haul:{default}:reply:service"]
        }
        #expect(commands.count > 2)
        let refused = try await roles.refused(roles.rules[role]!, commands)
        #expect(refused.isEmpty, "\(role): \(refused.map { $0.prefix(3) })")
        for (right, others) in roles.rights(of: role) {
            #expect(try await !roles.permits(others, commands), "\(role): no command needs \(right)")
        }
    }

    @Test("a worker has exactly the rights that its functions and connections need") func worker() async throws {
        let roles = try await Roles()
        #expect(try await roles.haul("deploy", "load-functions").status == 0)
        let commands = try await roles.commands {
            try await fill(roles, ["--settle-replicas", "1"])
            #expect(try await roles.cli("worker", ["PING"]) == "PONG")
            try await signIn("worker", roles)
            // Workers wait like this under max_running.
            #expect(try await !roles.cli("worker", ["BLPOP", Roles.prefix + "permits", "0.01"]).contains("NOPERM"))
            // Workers read the stream like this for --export-queues.
            let log = Roles.prefix + "log"
            for command in [["XLEN", log], ["XRANGE", log, "-", "+", "COUNT", "1"], ["XINFO", "GROUPS", log]] {
                #expect(try await !roles.cli("worker", command).contains("NOPERM"), "\(command)")
            }
            // Workers look like this for the key with the wrong type.
            #expect(try await !roles.cli("worker", ["TYPE", Roles.prefix + "jobs"]).contains("NOPERM"))
        }
        let own = try Self.commandsOfFunctions { !["tick/inspection.lua"].contains($0) }
        let rights = roles.rights(of: "worker")
        func command(_ right: String) -> String { String(right.dropFirst().prefix { $0 != "|" }) }
        let names = Set(rights.map(\.right).filter { $0.hasPrefix("+") }.map(command))
        #expect(own.subtracting(names).isEmpty, "the worker's role lacks \(own.subtracting(names).sorted())")
        let refused = try await roles.refused(roles.rules["worker"]!, commands.filter { $0.first != "brpop" })
        #expect(refused.isEmpty, "\(refused.map { $0.prefix(3) })")
        for (right, others) in rights where !own.contains(command(right)) {
            #expect(try await !roles.permits(others, commands), "no command needs \(right)")
        }
        let inspecting = try Self.commandsOfFunctions { ["tick/inspection.lua"].contains($0) }
        let inspector = Set(roles.rights(of: "inspector").map { String($0.right.dropFirst()) })
        #expect(inspecting.subtracting(inspector).isEmpty, "\(inspecting.subtracting(inspector))")
    }

    /// The commands of Redis in the files of the functions.
    private static func commandsOfFunctions(in isMeant: (String) -> Bool) throws -> Set<String> {
        let folder = Roles.repository.appending(path: "Sources/Bus/Lua")
        var result: Set<String> = []
        let files = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String } ?? []
        for file in files where file.hasSuffix(".lua") && isMeant(file) {
            let text = try String(contentsOf: folder.appending(path: file), encoding: .utf8)
            for call in text.matches(of: /(?:call|try)\(([^,)]*)/) {
                for name in call.1.matches(of: /'([A-Z]+)'/) { result.insert(name.1.lowercased()) }
            }
        }
        return result
    }
}
