import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// What the command prints, to which kind of reader, and where.
@Suite struct TerminalTests {
    /// Runs a line of sh in which `$0` is `haul`, for what only a shell does with descriptors and arguments.
    private func shell(_ line: String, _ bench: CommandBench, _ environment: [String: String] = [:]) throws
        -> ChildProcess
    {
        try ChildProcess(
            "/bin/sh", ["-c", line, try #require(ChildProcess.path(of: "haul"))],
            environment: ["HAUL_REDIS": bench.server.url, "XDG_STATE_HOME": bench.root.file("state")]
                .merging(environment) { $1 })
    }

    @Test("a queued job whose pause is pending is resumed, and a wait in a paused queue says why nothing starts")
    func heldQueue() async throws {
        let bench = try await CommandBench()
        let worker = try bench.worker("one")
        try await eventually { try await bench.haul("workers").out.contains("one") }
        _ = try await bench.haul("queue", "pause")
        _ = try await bench.haul("push", "http://h/a", "--id", "a")
        _ = try await bench.haul("pause", "a")
        let resumed = try await bench.haul("resume", "a")
        #expect(resumed.status == 0 && resumed.out.contains("a  resume requested") && resumed.err.isEmpty, "\(resumed)")
        #expect(!(try await bench.server.cli("HGET", "haul:{default}:want", "a").hasPrefix("paused")))
        let wait = try bench.start(["push", "http://h/b", "--wait"])
        try await eventually("the reason") { wait.standardError.contains("the queue default is paused") }
        wait.kill(SIGINT)
        _ = try await wait.wait()
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("an object of --json has each name once, and numbers are numbers") func strict() async throws {
        let bench = try await CommandBench()
        try await bench.server.cli(
            "HSET", "haul:{default}:job:a", "state", "completed", "last_modified_strong", "1", "received", "7")
        for arguments in [["stats"], ["show", "a"], ["queue", "pause"], ["queue", "limit", "2"], ["stats"]] {
            let process = try bench.start(arguments + ["--json"])
            #expect(try await process.wait() == 0)
            let members = try #require(try JSON(process.standardOutput).members)
            #expect(Set(members.map(\.name)).count == members.count, "\(process.standardOutput)")
            let texts = members.filter { $0.raw.hasPrefix("\"") && Double($0.raw.dropFirst().dropLast()) != nil }
            #expect(texts.isEmpty, "\(process.standardOutput)")
        }
    }

    @Test("a published text that is not an event is not forwarded") func strange() async throws {
        let bench = try await CommandBench()
        let watch = try bench.start(["watch", "--json"])
        let channel = "haul:{default}:events:x"
        try await eventually { try await bench.server.cli("PUBLISH", channel, "no JSON") == "1" }
        _ = try await bench.server.cli("PUBLISH", channel, #"{"event":"queued","id":"x"}"#)
        try await eventually { watch.standardOutput == "{\"event\":\"queued\",\"id\":\"x\"}\n" }
        watch.kill(SIGTERM)
        _ = try await watch.wait()
    }

    @Test("control characters of servers and producers do not reach a terminal") func controlCharacters() async throws {
        let bench = try await CommandBench()
        try await bench.server.cli(
            "HSET", "haul:{default}:job:a", "state", "failed", "etag", "\u{1B}[31m", "message", "\u{9B}2Jtext")
        try await bench.server.cli("ZADD", "haul:{default}:failed", "1", "a")
        for output in [try await bench.haul("show", "a").out, try await bench.haul("list").out] {
            #expect(output.hasSuffix("\n") && !output.isEmpty)
            #expect(!output.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{9B}" })
        }
    }

    @Test("a reader that goes away ends a list with success, and a download with failure") func gone() async throws {
        let bench = try await CommandBench()
        let gate = Latch()
        defer { gate.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 1, count: 1_000_000), to: request)
            reply.hold = (100_000, gate)
            return reply
        }
        let list = try shell("(\"$0\" stats; echo $? >&2) | true", bench)
        _ = try await list.wait()
        #expect(list.standardError == "0\n")
        let get = try shell(
            "(\"$0\" get --json \(origin.url("/a")) -o '\(bench.root.path)'; echo $? >&2) | head -n 1", bench)
        _ = try await get.wait()
        #expect(get.standardOutput.contains("started"))
        #expect(get.standardError == "1\n")
    }

    @Test("with standard output closed, nothing is written to a file that gets its descriptor")
    func closed() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { request in .file(FileBytes(seed: 2, count: 1000), to: request) }
        let line = "\"$0\" get \(origin.url("/a")) -o '\(bench.root.path)' <&- >&-"
        let get = try shell(line, bench)
        #expect(try await get.wait() == 1)
        #expect(get.standardError == "haul: standard output cannot be written: Bad file descriptor\n")
        #expect(try await shell(line + " 2>&-", bench).wait() == 1)
    }

    @Test("an argument that is not UTF-8 is refused, and not altered") func encoding() async throws {
        let bench = try await CommandBench()
        let push = try shell("\"$0\" push \"$(printf 'http://h/\\377')\"", bench)
        #expect(try await push.wait() == 2)
        #expect(push.standardError.contains("argument 2") && push.standardError.contains("not UTF-8"))
        #expect(try await bench.server.cli("KEYS", "*") == "")
    }

    @Test("an existing directory needs no / at its end, and short options take joined values")
    func directory() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { request in .file(FileBytes(seed: 3, count: 1000), to: request) }
        let get = try await bench.haul("get", origin.url("/a"), origin.url("/b"), "-o", bench.root.path, "-x2")
        #expect(get.status == 0, "\(get)")
        #expect(bench.root.holds("a", FileBytes(seed: 3, count: 1000)))
        let several = try await bench.haul(
            "get", origin.url("/a"), origin.url("/b"), "-o", bench.root.file("absent"))
        #expect(several.status == 2 && several.err.contains("end it in /"))
        let none = try await bench.haul("get", origin.url("/a"), "-o", "")
        #expect(none.status == 2 && none.err.contains("-o names neither"))
    }

    @Test("get creates the directories for its files") func newDirectories() async throws {
        let bench = try await CommandBench()
        let bytes = FileBytes(seed: 3, count: 1000)
        let origin = try OriginServer { request in .file(bytes, to: request) }
        let into = bench.root.file("new/deep/")
        #expect(try await bench.haul("get", origin.url("/a"), origin.url("/b"), "-o", into).status == 0)
        #expect(bench.root.holds("new/deep/a", bytes) && bench.root.holds("new/deep/b", bytes))
        #expect(try await bench.haul("get", origin.url("/a"), "-o", bench.root.file("other/name")).status == 0)
        #expect(bench.root.holds("other/name", bytes))
        #expect(
            try await bench.haul("get", origin.url("/a"), "-d", bench.root.file("third"), "-o", "named").status == 0)
        #expect(bench.root.holds("third/named", bytes))
        let taken = try await bench.haul("get", origin.url("/a"), "-d", bench.root.file("third/named"))
        #expect(taken.status == 2 && taken.err.contains("Not a directory"), "\(taken)")
    }

    @Test("the error for a mistyped command suggests a similar one") func mistyped() async throws {
        let bench = try await CommandBench()
        let near = try await bench.haul("wroker", "--root", "/tmp")
        #expect(near.status == 2 && near.err.contains("Did you mean haul worker?"), "\(near)")
        let inner = try await bench.haul("queue", "paus")
        #expect(inner.status == 2 && inner.err.contains("Did you mean haul queue pause?"), "\(inner)")
        let far = try await bench.haul("xyzzyx")
        #expect(far.status == 2 && far.err.contains("is not a command") && !far.err.contains("Did you mean"), "\(far)")
    }

    @Test("a list reports what its limit omits, and stats reports a queue without workers")
    func leftOut() async throws {
        let bench = try await CommandBench()
        let empty = try await bench.haul("stats", "--queue", "elsewhere")
        #expect(empty.err.contains("the queue elsewhere is unknown here"), "\(empty)")
        for number in 1...3 {
            _ = try await bench.haul("push", "http://h/\(number)", "--id", "job\(number)")
        }
        let list = try await bench.haul("list", "--limit", "1")
        #expect(list.out.split(separator: "\n").count == 2 && list.out.contains("job1"), "\(list)")
        #expect(list.err.contains("2 more jobs are queued") && list.err.contains("--after job1"), "\(list)")
        #expect(try await bench.haul("list", "--limit", "3").err == "")
        #expect(try await bench.haul("stats").err.contains("no worker serves the queue default"))
        let worker = try bench.worker("one")
        try await eventually { try await bench.haul("stats").err == "" }
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("several jobs are not pushed with one file name") func oneName() async throws {
        let bench = try await CommandBench()
        let several = try await bench.haul("push", "http://h/1", "http://h/2", "-o", "one.bin")
        #expect(several.status == 2 && several.err.contains("names one file"), "\(several)")
        let lines = try await bench.haul("push", "-", "-o", "one.bin", input: "http://h/1\nhttp://h/2\n")
        #expect(lines.status == 2 && lines.err.contains("names one file"), "\(lines)")
        #expect(try await bench.server.cli("KEYS", "*") == "")
        #expect(try await bench.haul("push", "http://h/1", "http://h/2", "-o", "all/").status == 0)
    }

    @Test("get keeps its state in the home directory if XDG_STATE_HOME is relative") func home() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { request in .file(FileBytes(seed: 4, count: 1000), to: request) }
        let home = TemporaryDirectory()
        let get = try shell(
            "\"$0\" get \(origin.url("/a")) -o '\(bench.root.path)'", bench,
            ["XDG_STATE_HOME": "relative", "HOME": home.path])
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(home.names == [".local"])
        #expect(!FileManager.default.fileExists(atPath: "/relative"))
    }

    @Test("an unknown job is an error, except with --wait-for") func unknown() async throws {
        let bench = try await CommandBench()
        for verb in ["watch", "show", "pause", "resume", "cancel", "retry", "remove"] {
            let absent = try await bench.haul(verb, "x")
            #expect(absent.status == 1 && absent.err.contains("no job x is known in the queue default"), "\(absent)")
            let bad = try await bench.haul(verb, "a b")
            #expect(bad.status == 2 && bad.err.contains("is not a valid job id"), "\(bad)")
        }
        #expect(try await bench.server.cli("EXISTS", "haul:{default}:want") == "0")
        #expect(try await bench.haul("pause", "x", "--wait-for").out == "x  pause requested\n")
        #expect(try await bench.server.cli("HEXISTS", "haul:{default}:want", "x") == "1")
        let watch = try bench.start(["watch", "x", "--wait-for"])
        try await eventually {
            try await bench.server.cli("PUBSUB", "NUMSUB", "haul:{default}:events:x").hasSuffix("1")
        }
        watch.kill(SIGTERM)
        _ = try await watch.wait()
    }

    @Test("an unclaimed job is found in the queue, and a finished job cannot be cancelled")
    func waiting() async throws {
        let bench = try await CommandBench()
        _ = try await bench.haul("push", "http://u:secret@h/a?token=secret", "--id", "a")
        let show = try await bench.haul("show", "a")
        #expect(show.status == 0 && show.out.contains("queued") && show.out.contains("http://h/a"), "\(show)")
        #expect(!show.out.contains("secret"))
        #expect(try await bench.haul("cancel", "a").out == "a  cancel requested\n")
        try await bench.server.cli("HSET", "haul:{default}:job:b", "state", "completed")
        let ended = try await bench.haul("cancel", "b", "c")
        #expect(ended.status == 1 && ended.out == "", "\(ended)")
        #expect(ended.err.contains("b is completed: there is nothing to cancel") && ended.err.contains("no job c"))
        // What cannot be done is a failure, and what is so already is none.
        for (verb, state, status) in [
            ("cancel", "completed", 1), ("cancel", "cancelled", 0), ("pause", "failed", 1), ("pause", "paused", 0),
            ("resume", "completed", 1), ("retry", "running", 0), ("retry", "completed", 1),
        ] {
            try await bench.server.cli("HSET", "haul:{default}:job:b", "state", state)
            let result = try await bench.haul(verb, "b")
            #expect(result.status == Int32(status) && result.err.contains("b is \(state)"), "\(verb): \(result)")
        }
    }

    @Test("a push that waits to begin an ended job anew is listed and cancelled as one that waits") func anew()
        async throws
    {
        let bench = try await CommandBench()
        try await bench.server.cli("HSET", "haul:{default}:job:a", "state", "completed", "url", "http://h/old")
        _ = try await bench.haul("push", "http://h/new", "--id", "a")
        _ = try await bench.haul("call", "--queue", "default", "http://h/call", "--id", "b", "--no-wait")
        #expect(try await bench.haul("show", "a").out.contains("A newer push of the job waits"))
        let list = try await bench.haul("list", "--state", "queued")
        #expect(list.out.contains("http://h/new"), "\(list)")
        let json = try JSON((try await bench.haul("list", "--state", "queued", "--json", "--match", "new")).out)
        #expect(
            json["state"]?.string == "queued" && json["ended"]?.bool == false && json["url"]?.string == "http://h/new")
        #expect(try await bench.haul("cancel", "a").out == "a  cancel requested\n")
        #expect(try await bench.server.cli("HGET", "haul:{default}:want", "a").hasPrefix("cancelled"))
    }

    @Test("a destructive command needs --yes if there is no terminal") func asked() async throws {
        let bench = try await CommandBench()
        for (state, verb) in [("paused", "cancel"), ("failed", "remove")] {
            try await bench.server.cli("ZADD", "haul:{default}:\(state)", "1", "a")
            let refused = try await bench.haul(verb, "--all")
            #expect(refused.status == 2 && refused.err.contains("--yes"), "\(refused)")
            #expect(try await bench.server.cli("EXISTS", "haul:{default}:want") == "0")
            #expect(try await bench.haul(verb, "--all", "--yes").out.contains("a  \(verb) requested"))
            try await bench.server.cli("DEL", "haul:{default}:want")
        }
    }

    @Test("get reports a full disk, and continues once there is space", DiskTests.available)
    func noRoom() async throws {
        let bench = try await CommandBench()
        let bytes = FileBytes(seed: 5, count: 3_000_000)
        let origin = try OriginServer { request in .file(bytes, to: request) }
        let state = TemporaryDirectory()
        let line = "$0 get \(origin.url("/a")) -d \(bench.root.path)"
        let get = try PrivateMounts.start(
            "mount -t tmpfs -o size=4m tmpfs '\(bench.root.path)'\nexport XDG_STATE_HOME='\(state.path)'",
            "sh",
            [
                "-c", "cd \(bench.root.path); head -c 2000000 /dev/zero > other; \(line) && exit 9; rm other; \(line)",
                try #require(ChildProcess.path(of: "haul")),
            ])
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(get.standardError.contains("no space for this file"), "\(get.standardError)")
        #expect(get.standardOutput.contains("completed  "))
    }
}
