import Foundation
import Glibc
import HaulClient
import HaulTestSupport
import Testing

/// `films#8` in a cluster of three primaries, through the command, HaulClient and a worker.
private struct PartitionBench {
    let cluster: RedisCluster
    let root = TemporaryDirectory()
    let queue: HaulQueue
    /// The number of the server of each partition.
    private(set) var owners: [Int] = []

    init() async throws {
        cluster = try await RedisCluster()
        queue = try HaulQueue(redis: cluster.url, queue: "films#8")
        for server in cluster.servers {
            // Else all nodes refuse all commands while one of them is away.
            try await server.cli("CONFIG", "SET", "cluster-require-full-coverage", "no")
            try await server.cli("CONFIG", "REWRITE")
        }
        for number in 0..<8 {
            owners.append(try await cluster.owner(of: cluster.slot(of: Self.key(number, "jobs"))))
        }
    }

    static func key(_ partition: Int, _ name: String) -> String { "haul:{films#\(partition)of8}:\(name)" }

    func partition(of id: String) async throws -> Int { try await cluster.slot(of: id) % 8 }

    func start(_ arguments: [String], input: String = "") throws -> ChildProcess {
        try ChildProcess(
            "haul", arguments,
            environment: ["HAUL_REDIS": cluster.url, "HAUL_QUEUE": "films#8", "XDG_STATE_HOME": root.file("state")],
            input: input)
    }

    func haul(_ arguments: String..., input: String = "") async throws -> (status: Int32, out: String, err: String) {
        let process = try start(arguments, input: input)
        let status = try await process.wait(within: .seconds(30))
        return (status, process.standardOutput, process.standardError)
    }

    func worker() throws -> ChildProcess {
        try start([
            "worker", "--root", root.path, "--name", "w", "--slots", "6", "--allow-address", "127.0.0.0/8", "--lease",
            "2",
        ])
    }

    /// A figure of `haul stats --json`.
    func count(_ state: String) async throws -> Int? {
        let stats = try await haul("stats", "--json")
        return stats.out.firstMatch(of: try Regex("\"\(state)\":([0-9]+)")).flatMap {
            Int($0.output[1].substring ?? "")
        }
    }
}

@Suite("A queue of partitions") struct PartitionCommandTests {
    @Test("each queued job is on one page of a list, whatever the order of pushes") func pages() async throws {
        let bench = try await CommandBench()
        for number in 0..<60 {
            // Those at the front are claimed first, and were pushed last.
            _ = try await bench.server.cli(
                number % 3 == 0 ? "RPUSH" : "LPUSH", "haul:{rep#\(number % 4)of4}:jobs",
                #"{"url":"http://h/\#(number)","id":"j\#(number)"\#(number % 5 == 0 ? "" : #","at":1700000000\#(100 + number)"#)}"#
            )
        }
        var (seen, after): ([String], [String]) = ([], [])
        while seen.count < 100 {
            let list = try bench.start(
                ["list", "--queue", "rep#4", "--state", "queued", "--limit", "7", "--json"] + after)
            #expect(try await list.wait() == 0, "\(list.standardError)")
            let page = list.standardOutput.split(separator: "\n").compactMap {
                $0.firstMatch(of: /"id":"(j[0-9]+)"/).map { String($0.output.1) }
            }
            seen += page
            guard let last = page.last else { break }
            after = ["--after", last]
        }
        #expect(seen.count == 60 && Set(seen).count == 60, "\(seen)")
    }

    @Test(
        "a queue over three nodes is pushed to, served, shown and controlled as one, and outlives one node",
        .timeLimit(.minutes(4)))
    func cluster() async throws {
        let bench = try await PartitionBench()
        #expect(Set(bench.owners).count == 3, "\(bench.owners)")
        let origin = try OriginServer { .file(FileBytes(seed: 71, count: 2000), to: $0) }
        func url(_ id: String) -> String { origin.url("/\(id)") }

        // Pushes reach the partition that the id names, by a library and by the command.
        let handles = try await bench.queue.push((0..<24).map { Job(url("c\($0)"), id: "c\($0)") })
        let lines = (0..<24).map { #"{"url":"\#(url("p\($0)"))","id":"p\#($0)"}"# }
        let pushed = try await bench.haul("push", "-", input: lines.joined(separator: "\n"))
        #expect(pushed.status == 0, "\(pushed.err)")
        var expected = [Int](repeating: 0, count: 8)
        for id in (0..<24).flatMap({ ["c\($0)", "p\($0)"] }) { expected[try await bench.partition(of: id)] += 1 }
        for (number, owner) in bench.owners.enumerated() {
            let length = try await bench.cluster.servers[owner].cli("LLEN", PartitionBench.key(number, "jobs"))
            #expect(length == String(expected[number]))
        }
        #expect(try await bench.count("queued") == 48)
        #expect(
            try await bench.haul("list", "--state", "queued", "--limit", "100").out.split(separator: "\n").count == 49)

        let worker = try bench.worker()
        for handle in handles { #expect(try await handle.result(timeout: .seconds(60)).state == .completed) }
        try await eventually("all jobs to be completed", within: .seconds(60)) {
            try await bench.count("completed") == 48
        }
        #expect(try await bench.count("workers") == 1)
        let listed = try await bench.haul("list", "--state", "completed", "--json").out.split(separator: "\n")
        #expect(listed.count == 48)
        #expect(try await bench.haul("list", "--state", "completed", "--limit", "5").err.contains("43 more jobs"))
        #expect(try await bench.haul("show", "p7").out.contains("completed"))
        #expect(try await bench.haul("queues").out.contains("films#8"))

        // A batch is counted where its name leads, and the jobs of a schedule are where that one's does.
        for (batch, status) in [("nightly", 0), ("c", 2), ("nightly", 0)] {
            let job = #"{"url":"http://h/s","batch":"\#(batch)"}"#
            let added = try await bench.haul("schedule", "add", "nightly", "--every", "1h", job)
            #expect(added.status == status && added.err.contains("counted in films#") == (status != 0), "\(added)")
        }
        _ = try await bench.haul("schedule", "remove", "nightly")

        // The recipe of the page for a producer with redis-cli.
        let recipe = try Pages.blocks("sh cluster", of: "docs/operate/partitions.md").joined(separator: "\n")
        let port = bench.cluster.ports[0]
        let shell = try ChildProcess(
            "bash",
            [
                "-c",
                "set -eu\nredis-cli() { command redis-cli -p \(port) \"$@\"; }\n"
                    + recipe
                    .replacingOccurrences(of: "https://example.org", with: origin.url("")),
            ])
        #expect(try await shell.wait() == 0, "\(shell.standardError)")
        #expect(try await bench.queue.job("film-7").result(timeout: .seconds(30)).state == .completed)
        #expect(try await bench.haul("remove", "film-7").status == 0)
        try await eventually("the job to be removed", within: .seconds(20)) { try await bench.count("completed") == 48 }

        // Operations reach a job, and settings all partitions.
        #expect(try await bench.haul("push", url("x"), "--id", "x", "--delay", "1000").status == 0)
        try await eventually("the job to wait", within: .seconds(20)) { try await bench.count("scheduled") == 1 }
        #expect(try await bench.haul("cancel", "x").status == 0)
        try await eventually("the job to be cancelled", within: .seconds(20)) {
            try await bench.count("cancelled") == 1
        }
        #expect(try await bench.haul("queue", "limit", "5").out.contains("at once in each of its 8 partitions"))
        for (number, owner) in bench.owners.enumerated() {
            let key = PartitionBench.key(number, "settings")
            #expect(try await bench.cluster.servers[owner].cli("HGET", key, "max_running") == "5")
        }
        #expect(try await bench.haul("queue", "limit", "none").status == 0)

        // A node goes away, and with it some partitions. The others go on.
        let victim = bench.owners[0]
        var (lost, kept): ([String], [String]) = ([], [])
        for number in 0..<200 where lost.count < 3 || kept.count < 6 {
            let id = "n\(number)"
            if bench.owners[try await bench.partition(of: id)] == victim { lost.append(id) } else { kept.append(id) }
        }
        // These wait there while the node is away.
        let waiting = try await bench.queue.push(
            lost.map { id in
                var job = Job(url(id), id: id)
                job.delay = .seconds(4)
                return job
            })
        try await eventually("the delayed jobs", within: .seconds(20)) {
            try await bench.count("scheduled") == lost.count
        }
        bench.cluster.servers[victim].signal(SIGKILL)
        let others = try await bench.queue.push(kept.map { Job(url($0), id: $0) })
        for handle in others { #expect(try await handle.result(timeout: .seconds(60)).state == .completed) }
        let refused = try await bench.haul("push", url("never"), "--id", lost[0])
        #expect(refused.status == 3 && refused.err.contains("the partition films#"), "\(refused.err)")

        try await bench.cluster.servers[victim].restart()
        for handle in waiting { #expect(try await handle.result(timeout: .seconds(90)).state == .completed) }
        try await eventually("all jobs to be completed", within: .seconds(60)) {
            try await bench.count("completed") == 48 + kept.count + lost.count
        }
        let check = try await bench.haul("check")
        #expect(check.status == 0, "\(check.out)\(check.err)")
        worker.kill(SIGTERM)
        #expect(try await worker.wait(within: .seconds(20)) == 0)
        await bench.queue.close()
    }

    @Test("the roles of Redis hold for all partitions with the pattern of the page", .timeLimit(.minutes(2)))
    func roles() async throws {
        let roles = try await Roles { $0.replacing("{default}", with: "{films#*of4}") }
        let origin = try OriginServer { .file(FileBytes(seed: 72, count: 2000), to: $0) }
        let root = TemporaryDirectory()
        func haul(_ role: String, _ words: String) async throws -> String {
            let (status, out, err) = try await roles.haul(role, words + " --queue films#4")
            #expect(status == 0, "\(role) \(words): \(out)\(err)")
            return out + err
        }
        _ = try await haul("deploy", "load-functions")
        for number in 0..<8 { _ = try await haul("producer", "push \(origin.url("/\(number)")) --id j\(number)") }
        let worker = try roles.start(
            "worker",
            ["worker", "--root", root.path, "--name", "w", "--allow-address", "127.0.0.0/8", "--queue", "films#4"])
        let service = try HaulQueue(redis: Roles.url("service", of: roles.server), queue: "films#4")
        var events = service.events.makeAsyncIterator()
        for number in 0..<8 {
            let end = try await service.job("j\(number)").result(timeout: .seconds(30))
            #expect(end.state == .completed)
        }
        try await service.cancel(["j1"])
        try await service.push(Job(origin.url("/last"), id: "last"))
        while let update = try await events.next() {
            if case .event(let event) = update, event.id == "last", event.finalState != nil { break }
        }
        await service.close()
        #expect(try await haul("monitor", "list --state completed").contains("j7"))
        #expect(try await haul("monitor", "stats").contains("1 worker"))
        _ = try await haul("monitor", "watch j3")
        _ = try await haul("operator", "remove j3")
        _ = try await haul("operator", "queue set max_running 3")
        #expect(try await haul("inspector", "check").contains("all is in order"))
        worker.kill(SIGTERM)
        #expect(try await worker.wait(within: .seconds(20)) == 0, "\(worker.standardError)")
    }
}
