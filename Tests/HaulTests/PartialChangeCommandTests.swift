import Glibc
import HaulRedis
import HaulTestSupport
import Testing

@Suite("Commands that reach only a part") struct PartialChangeCommandTests {
    @Test("a pause, a push and a drain of a queue with partitions say what they have done and what not")
    func partitions() async throws {
        let bench = try await CommandBench()
        let keys = (0..<3).map { "~haul:{films#\($0)of4}:*" }
        try await bench.server.cli(
            "ACL", "SETUSER", "limited", "on", ">secret", "+@all", "&*", keys[0], keys[1], keys[2])
        let limited = bench.server.url + "?user=limited&password=secret"
        func haul(_ arguments: [String], input: String = "", redis: String? = nil) async throws -> (
            Int32, String, String
        ) {
            let process = try bench.start(arguments + ["--queue", "films#4"], input: input, redis: redis)
            return (try await process.wait(), process.standardOutput, process.standardError)
        }

        let pause = try await haul(["queue", "pause"], redis: limited)
        #expect(pause.0 == 3 && pause.1.isEmpty, "\(pause)")
        #expect(pause.2.contains("3 of the 4 partitions of films#4 have the change, but not films#3of4"), "\(pause)")
        #expect(try await haul(["queue", "changes"]).1.contains("paused=1"))
        let shown = try await haul(["queue", "show"])
        #expect(
            shown.1.contains("only in 3 of 4 partitions: films#3of4 has none")
                && shown.2.contains("set or unset these again"), "\(shown)")
        #expect(try await haul(["queue", "show", "--json"]).1 == "{\"paused\":1,\"differs\":[\"paused\"]}\n")
        let stats = try await haul(["stats"])
        #expect(
            stats.1.contains("the queue is paused in 3 of 4 partitions")
                && stats.1.contains("partitions differ in paused: haul queue show --queue 'films#4' says how"),
            "\(stats)")
        #expect(try await haul(["stats", "--json"]).1.contains("\"paused_partitions\":3"))
        #expect(try await haul(["queues"]).1.contains("paused in 3 of 4 partitions"))

        // The ids j0 to j15 are in all partitions.
        let lines = (0..<16).map { #"{"url":"http://127.0.0.1:1/\#($0)","id":"j\#($0)"}"# }.joined(separator: "\n")
        let pushed = try await haul(["push", "-"], input: lines, redis: limited)
        let ids = pushed.1.split(separator: "\n")
        #expect(pushed.0 == 3 && ids.count < 16 && !ids.isEmpty, "\(pushed)")
        #expect(
            pushed.2.contains("\(ids.count) of 16 jobs were pushed") && pushed.2.contains("; not pushed: j"),
            "\(pushed)")
        #expect(pushed.2.contains("Push only these again"))
        let queued = try await haul(["list", "--state", "queued", "--json"]).1.split(separator: "\n")
        #expect(queued.count == ids.count && ids.allSatisfy { id in queued.contains { $0.contains("\"\(id)\"") } })

        #expect(try await haul(["queue", "resume"]).0 == 0)
        #expect(try await haul(["queue", "show"]).1.contains("nothing is set"))
    }

    @Test("a queue is drained only when what follows its last job is done") func owed() async throws {
        let bench = try await CommandBench()
        func looks() async throws -> Int {
            let stats = try await bench.server.cli("INFO", "commandstats")
            let line = stats.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_hlen:calls=") }
            return line.flatMap { Int($0.dropFirst(19).prefix { $0 != "," }) } ?? 0
        }
        let keys = ["owed_steps", "unannounced", "undelivered_replies"].map { "haul:{default}:" + $0 }
        try await bench.server.cli("HSET", keys[0], "a", "b")
        try await bench.server.cli("ZADD", keys[1], "1", "b")
        try await bench.server.cli("LPUSH", keys[2], "b")
        let drain = try bench.start(["queue", "drain"])
        for key in keys {
            try await bench.server.cli("CONFIG", "RESETSTAT")
            try await eventually("several looks") { try await looks() >= 8 }
            #expect(drain.isRunning)
            try await bench.server.cli("DEL", key)
        }
        #expect(try await drain.wait() == 0)
    }

    @Test("the role that drains sees what follows ended jobs, and one that may not see it says so")
    func drainingRole() async throws {
        let roles = try await Roles()
        try await roles.admin.send(Command("ZADD", Roles.prefix + "unannounced", 1, "a"))
        let drain = try roles.start("operator", ["queue", "drain"])
        try await eventually("the message that no worker is there") { drain.standardError.contains("wait for one") }
        try await roles.admin.send(Command("DEL", Roles.prefix + "unannounced"))
        #expect(try await drain.wait() == 0)
        let old = try await Roles { $0.replacing("%R~haul:{default}:unannounced ", with: "") }
        let blind = try await old.haul("operator", "queue drain")
        #expect(blind.status == 0 && blind.err.contains("may not read whether next steps"), "\(blind)")
    }

    @Test("a drained queue says which schedules are left") func drain() async throws {
        let bench = try await CommandBench()
        #expect(try await bench.haul("schedule", "add", "nightly", "--every", "1d", "http://127.0.0.1:1/a").status == 0)
        let drained = try await bench.haul("queue", "drain")
        #expect(drained.status == 0 && drained.out.contains("nothing of the queue default is queued"), "\(drained)")
        #expect(drained.err.contains("the queue still has 1 schedule, which pushes jobs"), "\(drained)")
        #expect(
            try await bench.haul("queue", "drain", "--json").out == "{\"drained\":true,\"paused\":0,\"schedules\":1}\n")
        // A name that no command adds can be removed.
        try await bench.server.cli("HSET", "haul:{default}:schedules", "b ad", "{}")
        #expect(try await bench.haul("schedule", "remove", "b ad").out == "b ad  removed\n")
    }

    @Test("a watch after a retry waits for the run that the retry begins") func watch() async throws {
        let bench = try await CommandBench()
        let isMissing = Shared(true)
        let origin = try OriginServer { request in
            isMissing.value ? OriginReply(404) : .file(FileBytes(seed: 7, count: 100), to: request)
        }
        #expect(try await bench.haul("push", origin.url("/a"), "--id", "a").status == 0)
        let first = try bench.worker("first")
        try await eventually("the failure", within: .seconds(30)) {
            try await bench.server.cli("HGET", "haul:{default}:job:a", "state") == "failed"
        }
        first.kill(SIGTERM)
        _ = try await first.wait()
        isMissing.change { $0 = false }
        // Without a worker the retry waits, so that the watch begins before it is applied.
        #expect(try await bench.haul("retry", "a").status == 0)
        let watching = try bench.start(["watch", "a"])
        try await eventually("the watch to wait", within: .seconds(20)) { watching.standardError.contains("waiting") }
        let second = try bench.worker("second")
        #expect(try await watching.wait() == 0, "\(watching.standardOutput) \(watching.standardError)")
        #expect(watching.standardOutput.contains("completed"))
        second.kill(SIGTERM)
        _ = try await second.wait()
    }
}
