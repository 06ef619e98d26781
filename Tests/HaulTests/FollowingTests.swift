import Glibc
import HaulContract
import HaulTerminal
import HaulTestSupport
import Testing

@testable import haul

/// Commands that wait: how they end, and with which exit status.
@Suite struct FollowingTests {
    @Test(
        "a command that a signal ends exits with 130",
        arguments: [
            ["push", "http://127.0.0.1:1/", "--id", "a", "--wait"], ["watch", "a"], ["watch"], ["queue", "drain"],
        ],
        [SIGINT, SIGTERM, SIGHUP])
    func interrupted(_ command: [String], _ signal: Int32) async throws {
        let bench = try await CommandBench()
        _ = try await bench.haul("push", "http://127.0.0.1:1/", "--id", "a", "--delay", "600")
        let process = try bench.start(command)
        try await eventually("the command to connect") {
            try await bench.server.cli("CLIENT", "LIST").contains("name=haul-")
        }
        process.kill(signal)
        #expect(try await process.wait() == 130)
    }

    @Test("a signal that was ignored when the command began stays ignored") func ignored() async throws {
        let bench = try await CommandBench()
        let drain = try ChildProcess(
            "/bin/sh",
            ["-c", "trap '' HUP; exec \"$0\" watch a --wait-for", try #require(ChildProcess.path(of: "haul"))],
            environment: ["HAUL_REDIS": bench.server.url])
        try await eventually("the command to subscribe") {
            try await bench.server.cli("PUBSUB", "NUMSUB", "haul:{default}:events:a").hasSuffix("1")
        }
        drain.kill(SIGHUP)
        drain.kill(SIGTERM)
        #expect(try await drain.wait() == 130)
    }

    @Test(
        "watch waits for the end of a push that waits, and not for the last end of its job",
        arguments: [
            ("", ["watch", "a"]), (",\"at\":", ["watch", "a"]), (",\"at\":", ["watch", "--state", "queued"]),
            ("", ["watch", "a", "--wait-for"]),
        ])
    func anew(_ time: String, _ command: [String]) async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        func push(_ path: String) async throws {
            let now = try await bench.server.cli("TIME").split(separator: "\n")[0] + "000"
            let at = time.isEmpty ? "" : time + now
            let job = "{\"url\":\"\(origin.url(path))\",\"id\":\"a\"\(at)}"
            try await bench.server.cli("LPUSH", "haul:{default}:jobs", job)
        }
        try await push("/old")
        let first = try bench.worker("w")
        let old = try bench.start(["watch", "a"])
        #expect(try await old.wait() == 0)
        first.kill(SIGTERM)
        _ = try await first.wait()
        try await eventually("a later second") {
            let settled = try await bench.server.cli("HGET", "haul:{default}:job:a", "settled_until")
            return try await Int(bench.server.cli("TIME").split(separator: "\n")[0])! * 1000 > Int(settled) ?? 0
        }
        try await push("/new")
        let watch = try bench.start(command)
        try await eventually("the command to subscribe, or to end") {
            let channel = try await bench.server.cli("PUBSUB", "NUMSUB", "haul:{default}:events:a")
            return channel.hasSuffix("1") || !watch.isRunning
        }
        #expect(watch.isRunning)
        let second = try bench.worker("w")
        #expect(try await watch.wait() == 0)
        #expect(try await bench.server.cli("HGET", "haul:{default}:job:a", "url").hasSuffix("/new"))
        second.kill(SIGTERM)
        _ = try await second.wait()
    }

    @Test("--json writes one line for each object, whatever line breaks a producer's JSON has") func oneLine()
        async throws
    {
        let bench = try await CommandBench()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        let watch = try bench.start(["watch", "--json"])
        try await eventually("the command to subscribe") {
            try await bench.server.cli("CLIENT", "LIST").contains("haul-events")
        }
        let worker = try bench.worker("w")
        let element = "{\"url\":\"\(origin.url("/a"))\",\"id\":\"a\",\"meta\":{\n\"n\":\r\n[1]\n}}"
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", element)
        try await eventually("the job to end") { watch.standardOutput.contains("\"completed\"") }
        watch.kill(SIGTERM)
        _ = try await watch.wait()
        var texts = [watch.standardOutput]
        for command in ["show a --json", "list --state completed --json", "watch a --json"] {
            let parts = command.split(separator: " ").map(String.init)
            let process = try bench.start(parts)
            #expect(try await process.wait() == 0)
            texts.append(process.standardOutput)
        }
        for text in texts {
            #expect(text.contains("\"meta\""), "\(text)")
            for line in text.split(separator: "\n") { #expect((try? JSON(String(line))) != nil, "\(line)") }
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("push --wait waits for its own job, however often the id was removed before") func removed() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        let worker = try bench.worker("w")
        for _ in 1...6 {
            #expect(try await bench.haul("push", origin.url("/a"), "--id", "a", "-o", "a", "--wait").status == 0)
            // The request is applied by the claim of the next push, or just before it.
            let time = try await bench.server.cli("TIME").split(separator: "\n")
            let timestamp = try #require(Int(time[0])) * 1000 + #require(Int(time[1])) / 1000
            try await bench.server.cli("HSET", "haul:{default}:want", "a", "deleted \(timestamp)")
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test(
        "push --wait and call go on if others push the same id wrongly, or want nonsense", arguments: ["push", "call"])
    func othersRejected(_ verb: String) async throws {
        let (bench, gate) = (try await CommandBench(), Latch())
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Array("right".utf8))
            reply.hold = (0, gate)
            return reply
        }
        let worker = try bench.worker("w")
        let command = try bench.start(
            verb == "push"
                ? ["push", origin.url("/a"), "--id", "a", "--wait"] : ["call", origin.url("/a"), "--id", "a", "--wait"])
        try await eventually("the job to run") {
            try await bench.server.cli("HGET", "haul:{default}:job:a", "state") == "running"
        }
        try await bench.server.cli("HSET", "haul:{default}:want", "a", "pause")
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", #"{"id":"a","url":"http://h/","retries":"5"}"#)
        try await eventually("two rejections") { try await bench.server.cli("LLEN", "haul:{default}:rejected") == "2" }
        gate.open()
        #expect(try await command.wait() == 0, "\(command.standardError)")
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("what a producer wrote into a rejection is printed without control characters") func hostileReason()
        async throws
    {
        let bench = try await CommandBench()
        let push = try bench.start(["push", "http://127.0.0.1:1/", "--id", "a", "--wait"])
        func subscribers() async throws -> Int {
            try await bench.server.cli("PUBSUB", "NUMSUB", "haul:{default}:events:a").hasSuffix("1") ? 1 : 0
        }
        try await eventually("the subscription") { try await subscribers() == 1 }
        let element = try await bench.server.cli("RPOP", "haul:{default}:jobs")
        let entry = JSON.object([
            ("at", "1"), ("reason", JSON.quoted("\u{1B}]0;own\u{7}\u{1B}[2J unknown")),
            ("element", JSON.quoted(element)),
        ])
        try await bench.server.cli("LPUSH", "haul:{default}:rejected", entry)
        // The event was published while the connection was away.
        try await bench.server.cli("CLIENT", "KILL", "TYPE", "pubsub")
        #expect(try await push.wait() == 1)
        #expect(push.standardOutput.contains("a  rejected: ") && push.standardOutput.contains("unknown"))
        #expect(!push.standardOutput.contains("\u{1B}") && !push.standardOutput.contains("\u{7}"))
    }

    @Test("watch forgets which jobs run when their ends may have been missed") func forgetsRunning() {
        var display = WatchDisplay(.error, names: [:])
        let progress = Event(
            Array(#"{"event":"progress","id":"a","at":1,"seq":1,"epoch":1,"speed":5,"received":1}"#.utf8))!
        display.show(progress)
        #expect(display.unknown == ["a"])
        display.forgetRunning()
        #expect(display.unknown.isEmpty)
        display.show(progress)
        #expect(display.unknown == ["a"])
    }

    @Test("watch shows running jobs in the order in which they started, however their events come") func order() {
        var jobs = WatchedJobs()
        func progress(_ id: String) -> Event {
            Event(Array(#"{"event":"progress","id":"\#(id)","at":1,"seq":1,"epoch":1,"speed":5,"received":1}"#.utf8))!
        }
        for id in ["c", "unsaid", "a", "b"] { jobs.record(progress(id)) }
        #expect(jobs.unknown == ["c", "unsaid", "a", "b"])
        for (id, started) in [("c", 3000), ("unsaid", nil), ("a", 1000), ("b", 2000)] as [(String, Int64?)] {
            jobs.describe(id, name: id, started: started)
        }
        #expect(jobs.shown(4).map(\.id) == ["a", "b", "c", "unsaid"] && jobs.unknown.isEmpty)
        // A job that goes on after a wait has started anew.
        jobs.remove("a")
        jobs.record(progress("a"))
        #expect(jobs.unknown == ["a"])
        jobs.describe("a", name: "a", started: 4000)
        #expect(jobs.shown(4).map(\.id) == ["b", "c", "a", "unsaid"])
    }

    @Test("push --wait exits with 1 if its job is removed before its end") func forgotten() async throws {
        let bench = try await CommandBench()
        for json in [false, true] {
            let push = try bench.start(
                ["push", "http://127.0.0.1:1/", "--id", "a", "--delay", "600", "--wait"] + (json ? ["--json"] : []))
            try await eventually { try await bench.server.cli("LLEN", "haul:{default}:jobs") != "0" }
            // Leave Redis as a worker would have left it while no client was subscribed.
            try await bench.server.cli("DEL", "haul:{default}:jobs")
            try await bench.server.cli("HSET", "haul:{default}:job:a", "settled_until", "99999999999999")
            #expect(try await push.wait() == 1)
            #expect(push.standardOutput.contains(json ? #"{"id":"a","state":"removed"}"# : "a  removed"))
            try await bench.server.cli("DEL", "haul:{default}:job:a")
        }
    }

    @Test("--id is for a single line") func lines() async throws {
        let bench = try await CommandBench()
        let push = try await bench.haul("push", "-", "--id", "a", input: "http://h/1\nhttp://h/2\n")
        #expect(push.status == 2 && push.err.contains("--id names one job"), "\(push)")
        #expect(try await bench.server.cli("KEYS", "*") == "")
        let own = try await bench.haul(
            "push", "-", "--id", "a", input: "http://h/1\n{\"url\":\"http://h/2\",\"id\":\"b\"}\n")
        #expect(own.status == 0 && own.out == "a\nb\n")
    }

    @Test(
        "a URL with an impossible host is refused before it is pushed",
        arguments: ["\u{2100}.invalid", "\u{301}a.invalid", "0x7f.1"])
    func hosts(_ host: String) async throws {
        let bench = try await CommandBench()
        let push = try await bench.haul("push", "http://\(host)/")
        #expect(push.status == 2 && push.err.contains("url: "), "\(push)")
        #expect(try await bench.server.cli("KEYS", "*") == "")
    }

    @Test("a command that waits goes on after Redis refused its commands for a while", arguments: ["watch", "call"])
    func refused(_ verb: String) async throws {
        let bench = try await CommandBench()
        _ = try await bench.haul("push", "http://127.0.0.1:1/", "--id", "a", "--delay", "600")
        let (arguments, id) =
            verb == "watch"
            ? (["watch", "a"], "a") : (["call", "--queue", "default", "--id", "b", "http://127.0.0.1:1/"], "b")
        let process = try bench.start(arguments)
        try await eventually("the command to subscribe") {
            try await bench.server.cli("PUBSUB", "NUMSUB", "haul:{default}:events:\(id)").hasSuffix("1")
        }
        try await bench.server.cli("CONFIG", "SET", "lua-time-limit", "1")
        let script = try ChildProcess("redis-cli", ["-s", bench.server.socket, "EVAL", "while true do end", "0"])
        try await eventually("the command to say so, or to end") {
            process.standardError.contains("trying again") || !process.isRunning
        }
        try await bench.server.cli("SCRIPT", "KILL")
        _ = try await script.wait()
        #expect(process.isRunning, "\(process.standardError)")
        process.kill(SIGTERM)
        #expect(try await process.wait() == 130)
    }
}
