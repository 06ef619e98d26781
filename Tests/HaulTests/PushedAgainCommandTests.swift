import Glibc
import HaulTestSupport
import Testing

/// Commands about jobs that have ended, of which another push waits for a free worker.
@Suite(.timeLimit(.minutes(2))) struct PushedAgainCommandTests {
    private func second(_ bench: CommandBench) async throws -> Int {
        try #require(Int(try await bench.server.cli("TIME").split(separator: "\n")[0]))
    }

    private func push(_ members: String, _ bench: CommandBench) async throws {
        let at = try await second(bench) * 1000
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", "{\"id\":\"a\",\"at\":\(at),\(members)}")
    }

    private func run(_ bench: CommandBench, until state: @escaping @Sendable () async throws -> Bool) async throws {
        let worker = try bench.worker("w")
        try await eventually("the job to end", state)
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test(
        "what selects ended jobs leaves out those of which a push waits",
        arguments: [
            (["remove", "--state", "completed", "--yes"], "left out"), (["remove", "--all", "--yes"], "left out"),
            (["cache", "clear", "--yes"], "0 cleared"), (["cache", "clear", "--method", "GET"], "0 cleared"),
        ])
    func kept(_ command: [String], _ words: String) async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { OriginReply(body: Array($0.path.utf8)) }
        try await push("\"kind\":\"request\",\"url\":\"\(origin.url("/old"))\"", bench)
        let state = { @Sendable in try await bench.server.cli("HGET", "haul:{default}:job:a", "state") == "completed" }
        try await run(bench, until: state)
        let ended = try await second(bench)
        try await eventually("a later second") { try await self.second(bench) > ended + 1 }
        try await push("\"kind\":\"request\",\"url\":\"\(origin.url("/new"))\"", bench)
        let process = try bench.start(command)
        #expect(try await process.wait() == 0, "\(process.standardError)")
        let printed = process.standardOutput + process.standardError
        #expect(printed.contains(words) && !printed.contains("remove requested"), "\(printed)")
        try await run(bench) {
            let hasEnded = try await state()
            return hasEnded && origin.requests.last?.path == "/new"
        }
    }

    @Test(
        "to remove ended jobs does not stop a push that comes after their states were read",
        arguments: [["remove", "--state", "completed", "--yes"], ["cache", "clear", "--yes"]])
    func pushedMeanwhile(_ command: [String]) async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        try await push("\"kind\":\"request\",\"url\":\"\(origin.url("/old"))\"", bench)
        try await run(bench) { try await bench.server.cli("HGET", "haul:{default}:job:a", "state") == "completed" }
        let monitor = try ChildProcess("redis-cli", ["-s", bench.server.socket, "MONITOR"])
        try await eventually("the monitor") { monitor.standardOutput.contains("OK") }
        let process = try bench.start(command)
        #expect(try await process.wait() == 0, "\(process.standardError)")
        try await eventually("the removal") { monitor.standardOutput.contains("removed ") }
        monitor.kill(SIGTERM)
        _ = try await monitor.wait()
        let lines = monitor.standardOutput.split(separator: "\n")
        let time = try #require(lines.lastIndex { $0.contains("\"TIME\"") })
        let read = try #require(lines.lastIndex { $0.contains("\"HMGET\"") && $0.contains("\"state\"") })
        // The removal has this time, and whatever is pushed later is newer.
        #expect(time < read, "\(monitor.standardOutput)")
    }
}
