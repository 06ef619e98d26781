import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// Lists of jobs, workers and queues.
@Suite struct ListTests {
    private static let key = "haul:{default}:"

    /// Writes a job in a state. `score` is the time at which it got there.
    private func put(
        _ bench: CommandBench, _ id: String, _ state: String, at score: Int, _ fields: [String: String] = [:]
    ) async throws {
        let pairs = fields.merging(["state": state]) { $1 }.flatMap { [$0.key, $0.value] }
        let hash = try ChildProcess(
            "redis-cli", ["-s", bench.server.socket, "HSET", Self.key + "job:\(id)"] + pairs)
        _ = try await hash.wait()
        let index = state == "running" ? "leases" : state
        try await bench.server.cli("ZADD", Self.key + index, String(score), id)
    }

    /// The ids, in the order of the lines.
    private func ids(_ bench: CommandBench, _ arguments: String...) async throws -> [String] {
        let list = try bench.start(["list"] + arguments)
        #expect(try await list.wait() == 0, "\(arguments): \(list.standardError)")
        return list.standardOutput.split(separator: "\n").dropFirst().map { String($0.prefix { $0 != " " }) }
    }

    private func failures(_ bench: CommandBench) async throws {
        for (id, error, host, at) in [
            ("a", "http_404", "one.example.org", 1000), ("b", "http_503", "two.example.org:81", 2000),
            ("c", "dns", "three.example.com", 3000),
        ] {
            try await put(
                bench, id, "failed", at: at,
                ["error": error, "message": "it failed", "url": "https://\(host)/\(id).bin", "worker": "w-\(id)"])
        }
    }

    @Test("failed jobs are filtered by error, host, worker, age and text, newest first") func filters() async throws {
        let bench = try await CommandBench()
        try await failures(bench)
        #expect(try await ids(bench, "--state", "failed") == ["c", "b", "a"])
        #expect(try await ids(bench, "--error", "http_*") == ["b", "a"])
        #expect(try await ids(bench, "--error", "dns", "--error", "http_404") == ["c", "a"])
        #expect(try await ids(bench, "--host", "example.org") == ["b", "a"])
        #expect(try await ids(bench, "--host", "TWO.example.org") == ["b"])
        #expect(try await ids(bench, "--worker", "w-c") == ["c"])
        #expect(try await ids(bench, "--match", "B.BIN") == ["b"])
        #expect(try await ids(bench, "--match", "*three*") == ["c"])
        #expect(try await ids(bench, "--older", "1h") == ["c", "b", "a"])
        #expect(try await ids(bench, "--state", "failed", "--sort", "error") == ["c", "a", "b"])
        let none = try await bench.haul("list", "--error", "tls")
        #expect(none.status == 0 && none.out == "" && none.err.contains("no such job"), "\(none)")
        let typo = try await bench.haul("list", "--state", "failled")
        #expect(typo.status == 2 && typo.err.contains("Did you mean failed?"), "\(typo)")
    }

    @Test("a list continues after the job at which a limit ended it") func after() async throws {
        let bench = try await CommandBench()
        for number in 0..<450 { try await put(bench, "j\(number)", "failed", at: number) }
        let first = try await bench.haul("list", "--state", "failed", "--limit", "10")
        #expect(first.err.contains("440 more jobs are failed") && first.err.contains("--after j440"), "\(first.err)")
        #expect(try await ids(bench, "--state", "failed", "--after", "j440", "--limit", "2") == ["j439", "j438"])
        #expect(try await ids(bench, "--state", "failed", "--after", "j1", "--limit", "5") == ["j0"])
        #expect(try await ids(bench, "--state", "failed", "--sort", "age", "--limit", "2") == ["j0", "j1"])
        #expect(
            try await ids(bench, "--state", "failed", "--sort", "age", "--after", "j9", "--limit", "1") == ["j10"])
        #expect(
            try await ids(bench, "--state", "failed", "--sort", "age", "--reverse", "--limit", "1") == ["j449"])
        #expect(
            try await ids(bench, "--state", "failed", "--sort", "id", "--after", "j97", "--limit", "5") == [
                "j98", "j99",
            ])
        let all = "\(Int.max)"
        #expect(try await ids(bench, "--state", "failed", "--sort", "size", "--limit", all).count == 450)
        let unknown = try await bench.haul("list", "--state", "failed", "--after", "x")
        #expect(unknown.status == 1 && unknown.err.contains("no job x is failed"), "\(unknown)")
    }

    @Test("haul stats counts what hosts do, and says how long jobs run") func facts() async throws {
        let bench = try await CommandBench()
        let now = Int(UnixTime.milliseconds)
        for (id, host) in [("a", "one.example"), ("b", "one.example"), ("c", "two.example")] {
            let fields = ["url": "https://\(host)/\(id)", "speed": "1000", "started": "\(now - 60_000)"]
            try await put(bench, id, "running", at: now + 60_000, fields)
        }
        let hosts = try await bench.haul("stats", "--hosts", "--json")
        let counts = try hosts.out.split(separator: "\n").map { try JSON(String($0)) }
        #expect(counts.map { $0["host"]?.string } == ["one.example", "two.example"], "\(hosts)")
        #expect(counts.first?["running"]?.integer == 2 && counts.first?["speed"]?.integer == 2000)
        let table = try await bench.haul("stats", "--hosts")
        #expect(table.out.contains("2.0 kB/s"), "\(table)")
        let ages = try await bench.haul("stats", "--ages", "--json")
        let running = try JSON(String(ages.out.prefix { $0 != "\n" }))["running"]
        #expect(running?["of"]?.integer == 3 && running?["median"]?.integer ?? 0 >= 60_000, "\(ages)")
        let both = try await bench.haul("stats", "--hosts", "--history")
        #expect(both.status == 2 && both.err.contains("only one of"), "\(both)")
    }

    @Test("haul stats says at 80 columns which host fails with what, and what slows jobs") func problems() async throws
    {
        let bench = try await CommandBench()
        let now = Int(UnixTime.milliseconds)
        for number in 0..<3 {
            try await put(
                bench, "f\(number)", "failed", at: now - 60_000 * number,
                ["error": "http_503", "url": "https://archive.example.org/\(number)", "retryable": "1"])
        }
        try await put(
            bench, "g", "failed", at: now - 7_200_000,
            ["error": "http_403", "url": "https://tiles.example.net/g", "retryable": "0"])
        let failures = try await bench.haul("stats", "--failures")
        #expect(
            failures.out.contains(#/3 +3 +\ds +http_503 +archive\.example\.org +may help +f0\n/#), "\(failures.out)")
        #expect(
            failures.out.contains(#/1 +0 +2h|119m +http_403 +tiles\.example\.net +fails again +g\n/#), "\(failures.out)"
        )
        #expect(failures.out.split(separator: "\n").allSatisfy { $0.count <= 80 })
        let groups = try await bench.haul("stats", "--failures", "--json").out.split(separator: "\n").map {
            try JSON(String($0))
        }
        #expect(groups.map { $0["count"]?.integer } == [3, 1] && groups[0]["host"]?.string == "archive.example.org")
        try await put(bench, "r", "running", at: now + 60_000, ["url": "https://a.example/r", "speed": "950"])
        try await bench.server.cli("HSET", Self.key + "settings", "rate", "1000")
        _ = try await bench.haul("push", "http://a.example/next", "--id", "next")
        let slowed = try await bench.haul("stats", "--bottlenecks")
        #expect(slowed.out.contains(#/1 +1 +0 +no worker takes jobs\n/#), "\(slowed)")
        #expect(slowed.out.contains(#/0 +1 +0 +the rate of the queue: 1\.0 kB\/s\n/#), "\(slowed)")
        let records = try await bench.haul("stats", "--bottlenecks", "--json").out
        #expect(records.contains(#"{"cause":"rate","queued":0,"running":1,"limit":1000}"#), "\(records)")
        let running = try await bench.haul("show", "r").out
        #expect(running.contains("slowed by  no worker takes jobs; the rate of the queue: 1.0 kB/s"), "\(running)")
        #expect(try await bench.haul("show", "next").out.contains("slowed by  no worker takes jobs"))
        _ = try await bench.haul("queue", "pause")
        #expect(try await bench.haul("stats", "--bottlenecks").out.contains(#/1 +0 +0 +the queue is paused\n/#))
    }

    @Test("failures are counted by error and by host, the most frequent first") func groups() async throws {
        let bench = try await CommandBench()
        try await failures(bench)
        try await put(bench, "d", "failed", at: 4000, ["error": "dns", "url": "https://three.example.com/d"])
        let empty = try await bench.haul("list", "--by", "group", "--error", "tls")
        #expect(empty.err.contains("--by counts only failed jobs"), "\(empty)")
        let queued = try await bench.haul("list", "--by", "group", "--state", "queued")
        #expect(queued.err.contains("no such job") && !queued.err.contains("--by counts"), "\(queued)")
        let errors = try await bench.haul("list", "--by", "error", "--json")
        let lines = try errors.out.split(separator: "\n").map { try JSON(String($0)) }
        #expect(lines.map { $0["error"]?.string } == ["dns", "http_404", "http_503"])
        #expect(lines.first?["count"]?.integer == 2 && lines.first?["example"]?.string == "d")
        let hosts = try await bench.haul("list", "--by", "host")
        #expect(hosts.out.contains(#/2 +three\.example\.com/#), "\(hosts.out)")
    }

    @Test("running jobs show their file, speed and age, and queued ones their URL without secrets")
    func running() async throws {
        let bench = try await CommandBench()
        try await put(
            bench, "film", "running", at: 1,
            [
                "url": "https://h/x", "path": "films/film.bin", "received": "50", "total": "100", "speed": "2048",
                "worker": "w1", "started": "1000",
            ])
        _ = try await bench.haul("push", "http://user:hush@h/next?key=hush", "--id", "next")
        let list = try await bench.haul("list")
        for words in ["ID", "SPEED", "films/film.bin", "50%", "2.0 kB/s", "w1", "http://h/next?[masked]"] {
            #expect(list.out.contains(words), "\(words): \(list.out)")
        }
        #expect(!list.out.contains("hush"))
        let json = try await bench.haul("list", "--json").out.split(separator: "\n").map { try JSON(String($0)) }
        #expect(json.map { $0["id"]?.string } == ["next", "film"] && json[1]["total"]?.integer == 100)
    }

    @Test("rejected elements are listed without their content, unless --all is given") func rejected() async throws {
        let bench = try await CommandBench()
        try await bench.server.cli(
            "LPUSH", Self.key + "rejected",
            #"{"at":1000,"reason":"url: must begin with http:// or https://","element":"{\"url\":\"ftp://u:hush@h/x?hush\",\"id\":\"bad\"}"}"#
        )
        try await bench.server.cli(
            "LPUSH", Self.key + "rejected", #"{"at":2000,"reason":"element: no object","element":"hush hush"}"#)
        for arguments in [["list", "--state", "rejected"], ["list", "--state", "rejected", "--json"]] {
            let list = try bench.start(arguments)
            #expect(try await list.wait() == 0)
            #expect(list.standardOutput.contains("must begin with http") && list.standardOutput.contains("ftp://h/x"))
            #expect(!list.standardOutput.contains("hush"), "\(list.standardOutput)")
        }
        #expect(try await bench.haul("list", "--state", "rejected", "--all").out.contains("hush hush"))
    }

    @Test("show prints what a person needs about one job, and its internals with --all") func show() async throws {
        let bench = try await CommandBench()
        try await put(
            bench, "a", "failed", at: 1,
            [
                "error": "http_503", "message": "the server is busy", "received": "1000000", "total": "4000000",
                "url": "https://h/a", "ticket": "internal", "attempt": "3", "created": "1700000000000",
            ])
        try await bench.server.cli("HSET", Self.key + "offsets:a", "0", "1000000")
        let page = try await bench.haul("show", "a")
        for words in ["a\n", "failed", "http_503: the server is busy", "3 failed in a row", "2023-11-14 22:13:20 UTC"] {
            #expect(page.out.contains(words), "\(words): \(page.out)")
        }
        #expect(page.out.contains("[") && page.out.contains("bytes 0-1000000") && !page.out.contains("ticket"))
        #expect(try await bench.haul("show", "a", "--all").out.contains(#/ticket +internal/#))
    }

    @Test("a worker that has been silent for a lease is lost") func workers() async throws {
        let bench = try await CommandBench()
        let none = try await bench.haul("workers")
        #expect(none.status == 0 && none.err.contains("no worker serves the queue default"), "\(none)")
        let worker = try bench.worker("one")
        try await eventually { try await bench.haul("workers").out.contains(#/one +working/#) }
        try await eventually("its free space to be known") {
            let members = try? JSON(try await bench.haul("workers", "--json").out)
            return members?["free"]?.integer ?? 0 > 0 && members?["state"]?.string == "working"
        }
        #expect(try await bench.haul("workers").out.contains(#/one .* B\/s +[0-9.]+ [kMGTP]?B /#))
        worker.kill(SIGSTOP)
        try await eventually("the worker to be lost", within: .seconds(20)) {
            try await bench.haul("workers").out.contains(#/one +lost/#)
        }
        #expect(try await bench.haul("workers", "--json").out.contains(#""state":"lost""#))
        worker.kill(SIGCONT)
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("the queues of a Redis are found without KEYS") func queues() async throws {
        let bench = try await CommandBench()
        _ = try await bench.haul("push", "http://h/1", "http://h/2", "--queue", "first")
        _ = try await bench.haul("push", "http://h/1", "--queue", "second")
        _ = try await bench.haul("queue", "pause", "--queue", "second")
        try await bench.server.cli("SET", "haul:{bad name}:x", "1")
        let list = try await bench.haul("queues")
        #expect(list.out.contains(#/first +2 /#) && list.out.contains(#/second +1 .*paused/#), "\(list.out)")
        #expect(!list.out.contains("bad") && list.out.split(separator: "\n").count == 3)
        #expect(try await !bench.server.cli("INFO", "commandstats").contains("cmdstat_keys:"))
    }
}
