import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Runs the command as a black box.
struct CommandBench {
    let server: RedisServer
    let root = TemporaryDirectory()

    init() async throws { server = try await RedisServer() }

    func haul(_ arguments: String..., input: String = "") async throws -> (status: Int32, out: String, err: String) {
        let process = try start(arguments, input: input)
        let status = try await process.wait()
        return (status, process.standardOutput, process.standardError)
    }

    func start(_ arguments: [String], input: String = "", redis: String? = nil) throws -> ChildProcess {
        try ChildProcess(
            "haul", arguments, environment: ["HAUL_REDIS": redis ?? server.url, "XDG_STATE_HOME": root.file("state")],
            input: input)
    }

    func worker(_ name: String, _ more: String...) throws -> ChildProcess {
        try start(
            [
                "worker", "--root", root.path, "--upload-from", root.path, "--name", name, "--allow-address",
                "127.0.0.0/8", "--lease", "2",
            ] + more)
    }
}

@Suite struct CommandTests {
    @Test("usage errors exit with 2 and a message") func usage() async throws {
        let bench = try await CommandBench()
        for (arguments, words) in [
            (["push"], "missing"), (["nonsense"], "nonsense"), (["push", "ftp://x"], "url: must begin with http"),
            (["push", "http://h/", "-o", "../x"], "path: "), (["push", "http://h/", "--id", "a b"], "id: "),
            (["list", "--state", "asleep"], "is not a state"), (["pause"], "give ids"),
            (["stats", "--queue", "{x}"], "not a valid queue name"),
            (["worker", "--root", "/tmp", "--slots", "0"], "--slots"),
            (["worker", "--root", "/tmp", "--queue", "films=0"], "from 1 to 1000, not \"=0\""),
            (["worker", "--root", "/tmp", "--queue", "films:films"], "ends with \"/\", like films:films/"),
            (["worker", "--root", "/tmp", "--queue", "films:../x/"], "a path beneath the root"),
            (["worker", "--root", "/tmp", "--queue", "films:/x/"], "a path beneath the root"),
            (["worker", "--root", "/tmp", "--queue", "films:.haul/"], "a path beneath the root"),
            (["worker", "--root", "/tmp", "--queue", "films:a/5"], "not \"5\""),
            (["worker", "--root", "/tmp", "--queue", "a:x/=2", "--queue", "b"], "could reach x/, the folder of a"),
            (["worker", "--root", "/tmp", "--queue", "a:x/y/", "--queue", "b:x/"], "is beneath x/, the folder of b"),
            (["worker", "--root", "/tmp", "--file-mode", "0888"], "--file-mode"),
            (["worker", "--root", "/tmp", "--gate", " "], "--gate must be a command of the shell"),
            (
                ["worker", "--root", "/tmp", "--gate", "true", "--gate-limit", "0"],
                "--gate-limit must be from 1 to 256"
            ),
            (["worker", "--root", "/tmp", "--gate-limit", "2"], "--gate-limit requires --gate"),
            (["worker", "--root", "/tmp", "--gate-timeout", "9"], "--gate-timeout requires --gate"),
            (["worker", "--root", "/tmp", "--proxy", "ftp://h"], "socks5h"),
            (["get", "http://127.0.0.1:1/", "-o", bench.root.path + "/", "--proxy", "socks9://h"], "socks5h"),
            (["worker", "--root", "/tmp", "--file-mode", "4755"], "--file-mode"),
            (["get", "http://127.0.0.1:1/", "-o", "b", "-o", "a"], "several -o name one file for each URL"),
            (["get", "http://127.0.0.1:1/", "http://127.0.0.1:1/a", "-o", "/dev/null", "-o", "a"], "give one kind"),
            (["get", "--mirror", "http://127.0.0.1:1/"], "give that file's URL first"),
            (["get", "http://127.0.0.1:1/", "--if-exists", "replace"], "if-exists"),
            (["stats", "--redis", "http://h"], "redis://"),
            (["queue", "set", "default.retrys", "1"], "Did you mean default.retries?"),
            (["queue", "set", "default.retries", "many"], "must be a whole number from 0 to 1000"),
            (["queue", "set", "starts", "10/d"], "like 10, \"10/s\""),
            (["queue", "set", "rate", "0"], "bytes per second, 1 or more"),
            (["queue", "set", "rate", "full 22:00-06:00 Europe/Nowhere, 2M"], "rate: the time zone Europe/Nowhere"),
            (["queue", "set", "limits.h", #"{"rate":"9 8:00-9:00 Europe/Nowhere"}"#], "limits.h: the time zone"),
            (["queue", "set", "rate", "2M, full 22:00-06:00"], "like full 22:00-06:00 Europe/Berlin, 2M"),
            (["get", "http://127.0.0.1:1/", "--limit-rate", "full 22-06"], "like full 22:00-06:00 Europe/Berlin, 2M"),
            (["put", "a", "http://127.0.0.1:1/", "--limit-rate", "0"], "bytes per second, 1 or more"),
            (["get", "http://127.0.0.1:1/", "--limit-rate", "1k 8:00-9:00 Mars/Base"], "time zone Mars/Base"),
            (
                ["queue", "set", "max_seconds", "1.5"],
                "max_seconds must be a whole number of seconds, 1 or more, not 1.5"
            ),
            (["queue", "set", "min_speed", "0"], "min_speed must be a whole number of bytes per second"),
            (["queue", "set", "max_bytes", "5M"], "max_bytes must be a whole number of bytes, 1 or more, not 5M"),
            (["queue", "set", "limits.h", #"{"max_bytes":0}"#], "max_bytes are whole numbers, 1 or more"),
            (["queue", "set", "limits.h", #"{"rate":0}"#], "rate must be bytes per second"),
            (["queue", "set", "limits.h", #"{"starts":"often"}"#], "starts must be jobs per second"),
            (["queue", "set", "limits.h", "4"], "connections"), (["queue", "set", "limits.H", "{}"], "lower case"),
            (["queue", "set", "base", "films/"], "absolute"), (["queue", "unset", "default.url"], "no default"),
            (["queue", "limit", "-1"], "missing"), (["queue", "limit", "many"], "a whole number"),
        ] {
            let process = try bench.start(arguments)
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        #expect(try await bench.server.cli("KEYS", "*") == "")
    }

    @Test("an unreachable Redis exits with 3 and a hint") func unreachable() async throws {
        let bench = try await CommandBench()
        let absent = try await bench.haul("stats", "--redis", "unix:///tmp/no-such-socket")
        #expect(absent.status == 3 && absent.err.contains("Is redis-server running"))
        try await bench.server.cli("CONFIG", "SET", "requirepass", "x")
        let locked = try await bench.haul("stats")
        #expect(locked.status == 3 && locked.err.contains("password"))
    }

    @Test("a key of the wrong type is reported, without a crash") func wrongType() async throws {
        let bench = try await CommandBench()
        try await bench.server.cli("SET", "haul:{default}:jobs", "x")
        let push = try await bench.haul("push", "http://h/a")
        #expect(push.status == 3 && push.err.contains("another type"))
    }

    @Test(
        "every command takes the queue from the HAUL_QUEUE of a worker, with a folder and a weight or without",
        arguments: ["films", "films=5", "films:films/", "films:films/old/=5"])
    func queueOfEnvironment(_ value: String) async throws {
        let bench = try await CommandBench()
        func run(_ arguments: String...) async throws -> (status: Int32, out: String) {
            let process = try ChildProcess(
                "haul", arguments, environment: ["HAUL_REDIS": bench.server.url, "HAUL_QUEUE": value])
            return (try await process.wait(), process.standardOutput)
        }
        #expect(try await run("push", "http://h/a").status == 0)
        #expect(try await bench.server.cli("LLEN", "haul:{films}:jobs") == "1")
        let stats = try await run("stats", "--json")
        #expect(stats.status == 0 && stats.out.contains(#""queue":"films""#), "\(stats)")
        let worker = try await run("worker", "--root", bench.root.path, "--print-config")
        #expect(worker.status == 0 && worker.out.contains(value), "\(worker)")
    }

    @Test("push prints ids and reads lines, and an unknown field keeps all lines from being pushed")
    func push() async throws {
        let bench = try await CommandBench()
        let lines = try await bench.haul(
            "push", "-", "--json", input: "http://h/1\n{\"url\":\"http://h/2\",\"id\":\"two\"}\n\n")
        #expect(lines.status == 0 && lines.out.contains("{\"id\":\"two\"}"))
        let unknown = try await bench.haul(
            "push", "-", input: "{\"url\":\"http://h/3\"}\n{\"url\":\"http://h/4\",\"pth\":\"x\"}\n")
        #expect(unknown.status == 2 && unknown.err.contains("pth: no such field"))
        #expect(try await bench.server.cli("LLEN", "haul:{default}:jobs") == "2")
        #expect(try await bench.haul("list").out.contains(#/two +queued .*http:..h.2/#))
    }

    @Test("settings and defaults are set, shown and removed, and a text needs no quotes") func defaults() async throws {
        let bench = try await CommandBench()
        #expect(try await bench.haul("queue", "show").out.contains("nothing is set"))
        #expect(try await bench.haul("queue", "set", "default.if_exists", "rename").status == 0)
        #expect(try await bench.haul("queue", "set", "default.headers", #"{"X-A":"b"}"#).status == 0)
        #expect(try await bench.haul("queue", "set", "base", "https://h/films/").status == 0)
        #expect(try await bench.haul("queue", "set", "keep_failed", "7200").status == 0)
        #expect(
            try await bench.haul("queue", "set", "limits.h:81", #"{"connections":4,"rate":9,"starts":"10/s"}"#).status
                == 0)
        #expect(try await bench.haul("queue", "set", "starts", "30/min").status == 0)
        #expect(
            try await bench.haul("queue", "show", "--json").out
                == #"{"base":"https://h/films/","default.headers":{"X-A":"b"},"default.if_exists":"rename","keep_failed":7200,"limits.h:81":{"connections":4,"rate":9,"starts":"10/s"},"starts":"30/min"}"#
                + "\n")
        #expect(try await bench.server.cli("HGET", "haul:{default}:defaults", "if_exists") == "\"rename\"")
        _ = try await bench.server.cli("HSET", "haul:{default}:defaults", "retries", "many")
        #expect(try await bench.haul("queue", "show").out.contains(#/default.retries +many +has no effect/#))
        #expect(try await bench.haul("check").out.contains("retries must be a whole number"))
        for name in [
            "default.if_exists", "default.headers", "default.retries", "base", "keep_failed", "limits.h:81", "starts",
        ] {
            #expect(try await bench.haul("queue", "unset", name).status == 0)
        }
        #expect(try await bench.haul("queue", "show", "--json").out == "{}\n")
    }

    @Test("a queue is paused, limited and opened, and stats shows it") func queue() async throws {
        let bench = try await CommandBench()
        #expect(try await bench.haul("queue", "pause").status == 0)
        #expect(try await bench.haul("queue", "limit", "3").out.contains("at most 3 jobs"))
        let shut = try await bench.haul("stats").out
        #expect(shut.contains("the queue is paused by ") && shut.contains("at most 3 run at once"))
        #expect(try await bench.haul("queue", "resume").status == 0)
        #expect(try await bench.haul("queue", "limit", "none", "--json").out == "{\"max_running\":null}\n")
        #expect(try await bench.server.cli("EXISTS", "haul:{default}:settings") == "0")
        let changes = try await bench.haul("queue", "changes").out.split(separator: "\n")
        let settings = changes.dropFirst().map { $0.split(separator: " ").last }
        #expect(settings == ["max_running=none", "paused=none", "max_running=3", "paused=1"], "\(changes)")
        #expect(try await bench.haul("queue", "set", "default.retries", "3").status == 0)
        #expect(try await bench.haul("queue", "unset", "default.retries").status == 0)
        let defaults = try await bench.haul("queue", "changes", "--limit", "2").out.split(separator: "\n").dropFirst()
        // The value may be a secret, and its absence is none.
        #expect(
            defaults.map { $0.split(separator: " ").last } == ["default.retries=none", "default.retries"], "\(defaults)"
        )
    }

    @Test("stats shows jobs that wait for a worker of their kind") func deferred() async throws {
        let bench = try await CommandBench()
        let worker = try bench.worker("w")
        _ = try await bench.server.cli("LPUSH", "haul:{default}:jobs", #"{"id":"a","kind":"dance","url":"http://h/"}"#)
        try await eventually("stats to show the job") {
            try await bench.haul("stats").out.contains("1 job waits for a worker that does jobs of the kind dance")
        }
        #expect(try await bench.haul("stats", "--json").out.contains(#""deferred":{"dance":1}"#))
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("the job of a killed worker is continued by another worker, to the byte") func killed() async throws {
        let bench = try await CommandBench()
        let bytes = FileBytes(seed: 31, count: 3_000_000)
        let gate = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            reply.hold = (100_000, gate)
            return reply
        }
        let first = try bench.worker("first")
        #expect(try await bench.haul("push", origin.url("/a"), "--id", "a").status == 0)
        try await eventually("a checkpoint") { try await bench.server.cli("EXISTS", "haul:{default}:offsets:a") == "1" }
        first.kill(SIGKILL)
        _ = try await first.wait()
        gate.open()
        let second = try bench.worker("second")
        let watch = try await bench.haul("watch", "a")
        #expect(watch.status == 0, "\(watch)")
        #expect(bench.root.holds("a", bytes))
        #expect(origin.requests.last?.headers["if-range"] == "\"v1\"")
        let show = try await bench.haul("show", "a", "--json")
        #expect(show.out.contains("\"state\":\"completed\"") && !show.out.contains("token"))
        #expect(try await bench.haul("remove", "a").status == 0)
        try await eventually("the job to be forgotten") { try await bench.haul("show", "a").status == 1 }
        second.kill(SIGTERM)
        #expect(try await second.wait() == 0)
    }

    @Test("every verb takes whole URLs and filters, and asks before it destroys what a filter selects")
    func selections() async throws {
        let bench = try await CommandBench()
        let url = "http://h.example/a?sig=planted"
        for more in [#","id":"a""#, "", #","id":"c","batch":"night""#] {
            try await bench.server.cli("LPUSH", "haul:{default}:jobs", #"{"url":"\#(url)"\#(more)}"#)
        }
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", #"{"url":"http://other.example/","id":"d"}"#)
        let shown = try await bench.haul("show", url, "--json")
        #expect(shown.status == 0 && shown.out.split(separator: "\n").count == 3 && !shown.out.contains("planted"))
        let paused = try await bench.haul("pause", url)
        #expect(paused.status == 0 && paused.out.split(separator: "\n").count == 3, "\(paused)")
        let worker = try bench.worker("w")
        try await eventually("the jobs to be paused", within: .seconds(20)) {
            try await bench.server.cli("ZCARD", "haul:{default}:paused") == "3"
        }
        let listed = try await bench.haul("list", "--batch", "night", "--json")
        #expect(listed.out.contains(#""id":"c""#) && listed.out.split(separator: "\n").count == 1)
        #expect(try await bench.haul("show", "a").out.contains("paused by "))
        let other = try await bench.haul("show", "--host", "h.example", "--state", "paused", "--batch", "night")
        #expect(other.status == 0 && other.out.hasPrefix("c\n"), "\(other)")
        #expect(try await bench.haul("cancel", "--host", "h.example", "--state", "paused").status == 2)
        #expect(try await bench.server.cli("ZCARD", "haul:{default}:paused") == "3")
        let cancelled = try await bench.haul(
            "cancel", "--host", "h.example", "--state", "paused", "--match", "c", "--yes")
        #expect(cancelled.status == 0 && cancelled.out.contains("c  cancel requested"), "\(cancelled)")
        let byURL = try await bench.haul("cancel", url)
        #expect(byURL.status == 0, "\(byURL)")
        try await eventually("the jobs to be cancelled", within: .seconds(20)) {
            try await bench.server.cli("ZCARD", "haul:{default}:cancelled") == "3"
        }
        let watched = try await bench.haul("watch", url)
        #expect(watched.status == 1 && watched.out.contains("cancelled"), "\(watched)")
        for (arguments, status, words) in [
            (["cancel", "http://h.example/a"], 1, "a URL must be whole"), (["show"], 2, "ids or URLs"),
            (["pause", url, "--state", "running"], 2, "only one of them"),
            (["retry", "--state", "running"], 2, "nothing to retry"),
            (["pause", "--state", "asleep"], 2, "not a state"),
            (["remove", "--older", "soon"], 2, "--older must be"),
        ] as [([String], Int32, String)] {
            let process = try bench.start(arguments)
            #expect(try await process.wait() == status, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("SIGTERM ends a worker within its grace time although Redis is gone") func termWithoutRedis() async throws {
        let bench = try await CommandBench()
        let gate = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 1, count: 2_000_000), to: request)
            reply.hold = (100_000, gate)
            return reply
        }
        let worker = try bench.start([
            "worker", "--root", bench.root.path, "--name", "w", "--allow-address", "127.0.0.0/8", "--grace", "1",
        ])
        _ = try await bench.haul("push", origin.url("/a"), "--id", "a")
        try await eventually { try await bench.server.cli("HGET", "haul:{default}:job:a", "state") == "running" }
        bench.server.signal(SIGKILL)
        worker.kill(SIGTERM)
        #expect(try await worker.wait(within: .seconds(40)) == 0)
        #expect(worker.standardError.contains("within the grace time"))
        #expect(worker.standardError.contains("unsettled jobs run again when their leases end"))
        #expect(!worker.standardError.contains("all jobs are settled or back in the queue"))
        gate.open()
    }

    @Test("a failed job makes watch and push --wait exit with 1") func failed() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { _ in OriginReply(404) }
        let worker = try bench.worker("w")
        let push = try await bench.haul("push", origin.url("/a"), "--wait")
        #expect(push.status == 1 && push.out.contains("http_404"))
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("a deleted file is downloaded again by get, and by push with --wait") func again() async throws {
        let bench = try await CommandBench()
        let bytes = FileBytes(seed: 43, count: 100_000)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            reply.delay = .milliseconds(300)
            return reply
        }
        let target = TemporaryDirectory()
        let worker = try bench.worker("one")
        for _ in 0..<2 {
            let get = try bench.start(["get", origin.url("/a"), "-o", target.path + "/x"])
            #expect(try await get.wait() == 0, "\(get.standardError)")
            #expect(target.holds("x", bytes))
            unlink(target.file("x"))
            #expect(try await bench.haul("push", origin.url("/a"), "-o", "y", "--wait").status == 0)
            #expect(bench.root.holds("y", bytes))
            unlink(bench.root.file("y"))
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("a queue that has as many schedules as it may have accepts another definition of one of them")
    func schedules() async throws {
        let bench = try await CommandBench()
        let definition = #"{"every":3600,"job":{"url":"http://h/"}}"#
        try await bench.server.cli(
            "EVAL", "for i = 1, 1000 do redis.call('HSET', KEYS[1], 's' .. i, ARGV[1]) end", "1",
            "haul:{default}:schedules", definition)
        let known = try await bench.haul("schedule", "add", "s7", "http://h/a", "--every", "1h")
        #expect(known.status == 0, "\(known.err)")
        let new = try await bench.haul("schedule", "add", "new", "http://h/a", "--every", "1h")
        #expect(new.status == 2 && new.err.contains("no more than 1000"), "\(new.err)")
    }
}
