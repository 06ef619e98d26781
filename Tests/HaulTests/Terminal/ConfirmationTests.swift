import HaulTestSupport
import Testing

/// Whom `haul retry` asks before it retries many jobs.
@Suite struct ConfirmationTests {
    private func bench() async throws -> CommandBench {
        let bench = try await CommandBench()
        for id in ["a", "b"] {
            try await bench.server.cli("HSET", "haul:{default}:job:\(id)", "state", "failed")
            try await bench.server.cli("ZADD", "haul:{default}:failed", "1", id)
        }
        return bench
    }

    private func retry(_ options: String, _ bench: CommandBench, _ terminal: PseudoTerminal) throws -> ChildProcess {
        try ChildProcess(
            "/bin/sh",
            [
                "-c", "exec \"$0\" retry \(options) <\(terminal.path) 2>\(terminal.path)",
                try #require(ChildProcess.path(of: "haul")),
            ], environment: ["HAUL_REDIS": bench.server.url])
    }

    @Test("retry --all at a terminal says how many jobs it means, and asks", arguments: ["n", "y"])
    func asked(answer: String) async throws {
        let bench = try await bench()
        let terminal = try PseudoTerminal(rows: 24, columns: 80)
        let process = try retry("--all", bench, terminal)
        try await eventually("the question") { terminal.text.contains("Retry 2 jobs of the queue default? [y/N]") }
        terminal.type(answer + "\n")
        #expect(try await process.wait() == (answer == "y" ? 0 : 1))
        #expect(try await bench.server.cli("HLEN", "haul:{default}:want") == (answer == "y" ? "2" : "0"))
    }

    @Test("retry asks neither a script nor with --yes") func unasked() async throws {
        let bench = try await bench()
        let script = try await bench.haul("retry", "--all")
        #expect(script.status == 0 && script.err.isEmpty, "\(script)")
        try await bench.server.cli("DEL", "haul:{default}:want")
        let terminal = try PseudoTerminal(rows: 24, columns: 80)
        let process = try retry("--state failed --yes", bench, terminal)
        #expect(try await process.wait() == 0, "\(terminal.text)")
        #expect(try await bench.server.cli("HLEN", "haul:{default}:want") == "2")
    }
}
