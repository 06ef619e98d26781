import Foundation
import Glibc
import HaulRedis
import HaulTestSupport
import Testing

/// `haul top` on a pseudo terminal whose other end is the test.
@Suite struct FullScreenTests {
    private func top(_ bench: CommandBench, _ terminal: PseudoTerminal) throws -> ChildProcess {
        try ChildProcess(
            "/bin/sh",
            ["-c", "exec \"$0\" top <\(terminal.path) >\(terminal.path)", try #require(ChildProcess.path(of: "haul"))],
            environment: ["HAUL_REDIS": bench.server.url, "TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "1"])
    }

    private static let farewell = "\u{1B}[?25h\u{1B}[?1049l"

    private func expectRestored(_ terminal: PseudoTerminal) {
        #expect(!terminal.isRaw)
        #expect(terminal.text.hasSuffix(Self.farewell))
    }

    @Test("top draws, reads keys, follows the size, and leaves the terminal as it was") func life() async throws {
        let bench = try await CommandBench()
        _ = try await bench.haul("push", "http://h/file.bin", "--id", "film")
        let terminal = try PseudoTerminal(rows: 24, columns: 80)
        let process = try top(bench, terminal)
        try await eventually("a screen") { terminal.text.contains("nothing is running; 1 are waiting") }
        #expect(terminal.isRaw)
        // Key 1 selects the view of queued jobs.
        terminal.type("1")
        try await eventually("the queued job") { terminal.text.contains("http://h/file.bin") }
        terminal.type("py")
        try await eventually("the request") {
            try await bench.server.cli("HGET", "haul:{default}:want", "film").hasPrefix("paused ")
        }
        terminal.forget()
        terminal.resize(rows: 5, columns: 30)
        process.kill(SIGWINCH)
        try await eventually("a small screen") { terminal.text.contains("too small") }
        #expect(!terminal.text.contains("\u{1B}[31m"))
        terminal.type("q")
        #expect(try await process.wait() == 0)
        expectRestored(terminal)
    }

    @Test("a signal during the password prompt leaves a terminal that echoes")
    func password() async throws {
        let terminal = try PseudoTerminal(rows: 24, columns: 80)
        let process = try ChildProcess(
            "/bin/sh",
            [
                "-c", "exec \"$0\" web hash-password alice <\(terminal.path) 2>\(terminal.path)",
                try #require(ChildProcess.path(of: "haul")),
            ])
        try await eventually("the question") { terminal.text.contains("Password for alice") }
        #expect(!terminal.echoes)
        process.kill(SIGINT)
        #expect(try await process.wait() == 130)
        #expect(terminal.echoes)
    }

    @Test(
        "the terminal is restored after a signal and after a crash",
        arguments: [SIGTERM, SIGINT, SIGHUP, SIGSEGV])
    func ended(_ signal: Int32) async throws {
        let bench = try await CommandBench()
        let terminal = try PseudoTerminal(rows: 24, columns: 80)
        let process = try top(bench, terminal)
        try await eventually("a screen") { terminal.text.contains("haul top") }
        process.kill(signal)
        let status = try await process.wait()
        #expect(status == (signal == SIGSEGV ? 128 + SIGSEGV : 130), "\(status)")
        expectRestored(terminal)
    }

    @Test("top is suspended and resumed") func suspended() async throws {
        let bench = try await CommandBench()
        let terminal = try PseudoTerminal(rows: 24, columns: 80)
        let process = try top(bench, terminal)
        try await eventually("a screen") { terminal.text.contains("haul top") }
        terminal.type("\u{1A}")
        try await eventually("the terminal to be restored") { !terminal.isRaw }
        terminal.forget()
        try await eventually("top to be resumed") {
            process.kill(SIGCONT)
            return terminal.isRaw && terminal.text.contains("haul top")
        }
        terminal.type("q")
        #expect(try await process.wait() == 0)
        expectRestored(terminal)
    }

    @Test("top survives a crash of Redis, and reports it") func redis() async throws {
        let bench = try await CommandBench()
        let terminal = try PseudoTerminal(rows: 24, columns: 200)
        let process = try top(bench, terminal)
        try await eventually("a screen") { terminal.text.contains("no worker serves this queue") }
        terminal.forget()
        bench.server.signal(SIGKILL)
        try await eventually("trouble", within: .seconds(20)) { terminal.text.contains("Redis") }
        terminal.forget()
        try await bench.server.restart()
        try await eventually("the queue again", within: .seconds(20)) {
            terminal.text.contains("no worker serves this queue")
        }
        terminal.type("\u{3}")
        #expect(try await process.wait() == 130)
        expectRestored(terminal)
    }

    @Test(
        "with 10,000 running jobs a frame has only changes, and never clears the screen",
        arguments: [(80, 24), (120, 40), (200, 60), (40, 10)] as [(UInt16, UInt16)])
    func frames(_ columns: UInt16, _ rows: UInt16) async throws {
        let bench = try await CommandBench()
        let redis = Redis(try RedisURL(bench.server.url), name: "test")
        try await TopReaderTests.fill(redis, 10_000)
        let terminal = try PseudoTerminal(rows: rows, columns: columns)
        let process = try top(bench, terminal)
        try await eventually("all jobs, down to the last row", within: .seconds(30)) {
            let parts = terminal.text.components(separatedBy: "http://h/0")
            return parts.count > 1 && parts[0].contains("10.0k") && parts.last!.contains("\u{1B}[\(rows);1H")
        }
        // The first frames can have a part of the jobs, because they are read in several steps. All are there when no row
        // has been drawn for as long as several readings take.
        var isQuiet = false
        for _ in 0..<12 where !isQuiet {
            terminal.forget()
            try await Task.sleep(for: .seconds(2.5))
            isQuiet = !terminal.text.contains("http://h/")
        }
        #expect(isQuiet, "rows are drawn although nothing changes")
        terminal.forget()
        // This changes the counts, and no row of the list.
        try await redis.send(Command("ZADD", "haul:{default}:paused", "1", "more"))
        try await eventually("the change", within: .seconds(30)) {
            terminal.text.contains("paused 1") || terminal.text.contains("pau 1")
        }
        let text = terminal.text
        #expect(!text.contains("\u{1B}[2J"))
        // Each drawn row begins with its position.
        let drawn = text.matches(of: /\x1B\[(\d+);1H/).compactMap { Int($0.1) }
        #expect(!drawn.isEmpty && drawn.allSatisfy { $0 <= Int(rows) }, "\(drawn)")
        #expect(!text.contains("http://h/"), "a row that has not changed was drawn")
        terminal.type("q")
        #expect(try await process.wait() == 0)
        expectRestored(terminal)
        await redis.close()
    }

    @Test("without a terminal top prints one screen, and no escape sequence") func once() async throws {
        let bench = try await CommandBench()
        let out = try await bench.haul("top").out
        #expect(out.contains("haul top default") && !out.contains("\u{1B}"))
        #expect(out.split(separator: "\n", omittingEmptySubsequences: false).count == 24)
    }
}
