import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// Arguments, lines and keys as only people and broken programs write them.
@Suite struct OddInputTests {
    @Test("senseless numbers are usage errors, and crash no command") func numbers() async throws {
        let bench = try await CommandBench()
        let worker = ["worker", "--root", bench.root.path, "--name", "w"]
        for (arguments, words) in [
            (worker + ["--grace", "inf"], "--grace"), (worker + ["--grace=-1"], "--grace"),
            (worker + ["--limit-rate", "0"], "--limit-rate"), (worker + ["--max-file-size=-5"], "--max-file-size"),
            (worker + ["--max-file-size", "9223372036854775807"], "--max-file-size"),
            (worker + ["--keep-free=-1"], "--keep-free"),
            (worker + ["--queue", "a", "--queue", "a=2"], "twice"),
            (["get", "http://127.0.0.1:1/", "--limit-rate", "0"], "--limit-rate"),
            (["push", "http://h/", "--delay", "nan"], "--delay"),
            (["push", "http://h/", "--deadline", "inf"], "--deadline"),
            (["list", "--limit", "0"], "--limit"),
        ] {
            let process = try bench.start(arguments)
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        #expect(try await bench.server.cli("KEYS", "*") == "")
    }

    @Test("a refused option or value is named in the message, with the way out, and nothing is pushed")
    func messages() async throws {
        let bench = try await CommandBench()
        let url = "http://h/"
        let digits = String(repeating: "0", count: 64)
        for (arguments, words) in [
            (
                ["list", "--by", "foo"],
                "--by must be error, host, worker, state, kind, batch, group or waiting, not \"foo\""
            ),
            (["list", "--sort", "foo"], "not \"foo\"; see haul list --help"),
            (["get", url, "--if-exists", "foo"], "--if-exists must be reuse, overwrite, rename, fail or skip, not"),
            (["worker", "--durability", "foo"], "--durability must be disk or process, not \"foo\""),
            (["push", url, "--delay", "-1"], "because -1 begins with - like an option: write --delay=-1"),
            (["push", url, "--delay=-1"], "delay: must be a number of seconds from 0"),
            (["queue", "limit", "-1"], "because -1 begins with - like an option: write -- before it"),
            (["queue", "limit", "--", "-1"], "none, not \"-1\""),
            (["push", "-H", "Content-Length: 3", "-H", "Content-Length: 4", url], "content-length, because Haul sets"),
            (["call", "-H", "Content-Length: 3", "-H", "Content-Length: 4", url], "content-length, because Haul sets"),
            (["push", "-H", "Host: a", url], "host, because the URL names the host"),
            (
                ["push", "-H", "X: 1", "-H", "X: 2", url],
                "--header gives X twice, as \"1\" and \"2\": give all values in one"
            ),
            (["push", "-H", "X Y: 1", url], "headers: must have names of visible ASCII characters"),
            (["call", "-H", "X: a\rb", url], "headers: must have values that are texts without line breaks"),
            (["call", "--query", "a=1", "--query", "a=2", url], "--query gives a twice"),
            (["put", "/etc/hostname", "--field", "a=1", "--field", "a=2", url], "--field gives a twice"),
            (["get", "-H", "Content-Length: 3", url], "-H \"Content-Length\": haul sets this header itself"),
            (["get", "-H", "X Y: 3", url], "-H \"X Y\": a header's name has only visible ASCII characters"),
            (["push", "--checksum", "sha256:\(digits.dropLast())z", url], "but character 64 of them is not one"),
            (["push", "--checksum", "sha256:\(digits)0", url], "after sha256:, not 65"),
            (["queue", "set", "default.nope", "3"], "nope can have no default. haul queue set --help names all"),
            (["queue", "set", "default.retrie", "3"], "Did you mean default.retries?"),
            (["queue", "set", "retries", "3"], "retries is not a setting. Did you mean default.retries?"),
        ] {
            let process = try bench.start(arguments)
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        let lines = try await bench.haul("push", "-", input: "# c\nhttp://h/1\nhello world\n")
        #expect(lines.status == 2 && lines.err.contains(#"line 3: "hello world" is neither a URL nor"#), "\(lines)")
        #expect(try await bench.server.cli("KEYS", "*") == "")
        let commented = try await bench.haul("push", "-", input: "# c\n  # d\nhttp://h/1\n")
        #expect(commented.status == 0 && commented.out.split(separator: "\n").count == 1, "\(commented)")
    }

    @Test("an invalid line is reported by its number, and nothing is pushed") func lines() async throws {
        let bench = try await CommandBench()
        for bad in [
            "ftp://h/3", "{\"url\":\"http://h/3\",\"size\":-1}", "{\"url\":", "{\"url\":\"http://h/3\",\"siez\":1}",
            "http://h/\u{FFFD}",
        ] {
            let push = try await bench.haul("push", "-", input: "http://h/1\n\n\(bad)\n")
            #expect(push.status == 2 && push.err.contains("line 3: "), "\(push)")
        }
        #expect(try await bench.server.cli("KEYS", "*") == "")
    }

    @Test("malformed fields and events are shown, and crash no command") func garbage() async throws {
        let bench = try await CommandBench()
        let queue = "haul:{default}"
        try await bench.server.cli("ZADD", "\(queue):workers", "1", "ghost")
        try await bench.server.cli("HSET", "\(queue):worker:ghost", "seen", "-9223372036854775808")
        #expect(try await bench.haul("workers").status == 0)
        try await bench.server.cli("HSET", "\(queue):worker:ghost", "pid", "7", "running", "+5", "slots", "unlimited")
        let workers = try await bench.haul("workers", "--json")
        #expect(workers.out.contains("\"pid\":7,\"slots\":\"unlimited\",\"running\":5,"), "\(workers)")
        try await bench.server.cli(
            "HSET", "\(queue):job:odd", "state", "completed", "meta", "{{", "received", "nan", "total", "0x10")
        let show = try await bench.haul("show", "odd", "--json")
        // A value that does not have its type is left out, so that programs can rely on the types.
        #expect(try JSON(show.out).members?.map(\.name) == ["id", "state", "ended"], "\(show.out)")
        let watch = try bench.start(["watch", "x", "--wait-for"])
        for event in [
            "{\"event\":\"retrying\",\"id\":\"x\",\"delay\":1e300}",
            "{\"event\":\"progress\",\"id\":\"x\",\"fraction\":1e300,\"eta\":-9223372036854775808}",
        ] {
            try await eventually("haul watch to subscribe") {
                try await bench.server.cli("PUBLISH", "\(queue):events:x", event) == "1"
            }
        }
        _ = try await bench.server.cli("PUBLISH", "\(queue):events:x", "{\"event\":\"completed\",\"id\":\"x\"}")
        #expect(try await watch.wait() == 0)
    }

    @Test("a push of no jobs waits for nothing") func nothing() async throws {
        let bench = try await CommandBench()
        let push = try await bench.haul("push", "-", "--wait", input: "# no job\n\n")
        #expect(push.status == 0 && push.out.isEmpty, "\(push)")
    }

    @Test("the list of rejected elements shows no password, however its URL is written") func passwords() async throws {
        let bench = try await CommandBench()
        let urls = [
            "user:planted@h/f", "ftp:user:planted@h", "//user:planted@h/", "user:planted@h/?next=http://h/",
            "http://u:planted@h/",
            "planted://user:planted@h/?planted",
        ]
        for url in urls {
            let entry = #"{"at":1,"reason":"url: no","element":"{\"url\":\"\#(url)\"}"}"#
            _ = try await bench.server.cli("LPUSH", "haul:{default}:rejected", entry)
        }
        for arguments in [["list", "--state", "rejected"], ["list", "--state", "rejected", "--json"]] {
            let list = try bench.start(arguments)
            #expect(try await list.wait() == 0)
            let shown = list.standardOutput.replacing("planted://", with: "")
            #expect(shown.contains("url: no") && !shown.contains("planted"))
        }
    }

    @Test(
        "the list of rejected elements refuses what selects or sorts jobs",
        arguments: [
            "--match x", "--host h", "--error x", "--group g", "--batch b", "--older 1h", "--sort id", "--by error",
        ])
    func refusedFilters(_ option: String) async throws {
        let words = ["list", "--state", "rejected"] + option.split(separator: " ").map(String.init)
        let list = try ChildProcess("haul", words)
        #expect(try await list.wait() == 2)
        #expect(list.standardError.contains("rejected elements are not jobs"), "\(list.standardError)")
    }

    @Test("a job whose record has the largest number of attempts still runs") func attempts() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        try await bench.server.cli("HSET", "haul:{default}:job:a", "state", "paused", "attempt", "9223372036854775807")
        try await bench.server.cli("ZADD", "haul:{default}:paused", "1", "a")
        let worker = try bench.worker("w")
        #expect(try await bench.haul("push", origin.url("/a"), "--id", "a", "--wait").status == 0)
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("a failure to write the output is reported, and is not a success") func fullOutput() async throws {
        let bench = try await CommandBench()
        let process = try ChildProcess(
            "/bin/sh", ["-c", "\"$0\" stats > /dev/full", try #require(ChildProcess.path(of: "haul"))],
            environment: ["HAUL_REDIS": bench.server.url])
        #expect(try await process.wait() == 1)
        #expect(process.standardError.contains("standard output cannot be written"))
    }

    @Test("get prints which of several URLs has failed") func failures() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { request in
            request.path == "/good" ? OriginReply(body: [1]) : OriginReply(404)
        }
        let target = TemporaryDirectory()
        let get = try await bench.haul(
            "get", origin.url("/good"), origin.url("/bad?key=secret"), "-o", target.path + "/")
        #expect(get.status == 1)
        let line = get.err.split(separator: "\n").first { $0.contains("http_404") }
        #expect(line?.hasSuffix(origin.url("/bad?key=[masked]")) == true, "\(get.err)")
    }

    @Test("a watch reports a lost subscription, and continues once Redis is back")
    func interruptedWatch() async throws {
        let bench = try await CommandBench()
        let watch = try bench.start(["watch"])
        let event = "{\"event\":\"queued\",\"id\":\"x\"}"
        let channel = "haul:{default}:events:x"
        try await eventually { try await bench.server.cli("PUBLISH", channel, event) == "1" }
        try await bench.server.cli("CLIENT", "KILL", "TYPE", "pubsub")
        try await eventually { watch.standardError.contains("trying again") }
        try await eventually { try await bench.server.cli("PUBLISH", channel, event) == "1" }
        try await eventually { watch.standardOutput == "x  queued\nx  queued\n" }
        watch.kill(SIGTERM)
        _ = try await watch.wait()
    }

    @Test("events are followed through a restart of Redis, and none is missing") func interruptedEvents() async throws {
        let bench = try await CommandBench()
        #expect(try await bench.haul("queue", "set", "event_stream", "1000").status == 0)
        let follower = try bench.start(["events", "--follow"])
        func add(_ id: String) async throws {
            try await bench.server.cli(
                "XADD", "haul:{default}:log", "*", "id", id, "data", #"{"event":"queued","id":"\#(id)","at":1}"#)
        }
        try await add("before")
        try await eventually { follower.standardOutput.contains("before") }
        try await bench.server.restart()
        try await add("after")
        try await eventually { follower.standardOutput.contains("after") }
        #expect(follower.isRunning)
        follower.kill(SIGTERM)
        _ = try await follower.wait()
    }

    @Test("the error for a hanging Redis has a readable time") func hanging() async throws {
        let bench = try await CommandBench()
        bench.server.signal(SIGSTOP)
        let stats = try await bench.haul("stats")
        bench.server.signal(SIGCONT)
        #expect(stats.status == 3 && stats.err.contains("within 2.0 seconds"), "\(stats)")
    }

    @Test("draining a paused queue prints why it takes so long") func drain() async throws {
        let bench = try await CommandBench()
        #expect(try await bench.haul("queue", "pause").status == 0)
        #expect(try await bench.haul("push", "http://h/1", "--id", "a").status == 0)
        let drain = try bench.start(["queue", "drain"])
        try await eventually { drain.standardError.contains("starts no jobs") }
        try await bench.server.cli("DEL", "haul:{default}:jobs")
        #expect(try await drain.wait() == 0)
    }
}
