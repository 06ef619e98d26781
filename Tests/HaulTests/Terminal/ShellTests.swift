import Foundation
import HaulTestSupport
import Testing

/// What zsh and fish complete at a terminal. `ManualTests` covers bash.
@Suite struct ShellTests {
    private static func shell(_ name: String) -> String? { ChildProcess.path(of: name) }

    private static let zsh = """
        fpath=("$DIRECTORY" $fpath); autoload -Uz compinit; compinit -u -D; unsetopt zle_bracketed_paste; echo REA''DY
        """
    private static let fish = "source \"$DIRECTORY/haul.fish\"; set fish_greeting; echo REA''DY"

    @Test(
        "zsh and fish complete commands, values, files, and ids that the command applies to",
        arguments: [("zsh", ["-f", "-i"], zsh, "_haul"), ("fish", ["-N", "-i"], fish, "haul.fish")].filter {
            shell($0.0) != nil
        })
    func completions(_ name: String, _ arguments: [String], _ setup: String, _ file: String) async throws {
        let bench = try await CommandBench()
        for (state, id) in [("failed", "broken"), ("paused", "held")] {
            try await bench.server.cli("HSET", "haul:{default}:job:\(id)", "state", state)
            try await bench.server.cli("ZADD", "haul:{default}:\(state)", "1", id)
        }
        try await bench.server.cli("LPUSH", "haul:{elsewhere}:jobs", "{}")
        let (directory, haul) = (TemporaryDirectory(), try #require(ChildProcess.path(of: "haul")))
        let script = try await bench.haul("completions", name).out
        try script.write(toFile: directory.file(file), atomically: false, encoding: .utf8)
        try "".write(toFile: directory.file("sums.txt"), atomically: false, encoding: .utf8)
        let terminal = try PseudoTerminal(rows: 24, columns: 120)
        let line = "exec setsid -c \"$0\" \"$@\" <\(terminal.path) >\(terminal.path) 2>&1"
        let process = try ChildProcess(
            "/bin/sh", ["-c", line, try #require(Self.shell(name))] + arguments,
            environment: [
                "HAUL_REDIS": bench.server.url, "DIRECTORY": directory.path, "HOME": directory.path, "TERM": "dumb",
                "XDG_CONFIG_HOME": directory.path, "LANG": "C.UTF-8",
                "PATH": haul.split(separator: "/").dropLast().map { "/" + $0 }.joined() + ":/usr/bin:/bin",
            ])
        terminal.type(setup + "\n")
        try await eventually("\(name) to be ready", within: .seconds(30)) { terminal.text.contains("READY") }
        for (typed, completed) in [
            ("haul pus", "haul push "), ("haul push --if-exists over", "haul push --if-exists overwrite "),
            ("haul retry br", "haul retry broken "), ("haul resume h", "haul resume held "),
            ("haul stats --queue else", "haul stats --queue elsewhere "),
            ("haul get --checksum-file \(directory.path)/su", "/sums.txt "),
        ] {
            terminal.forget()
            terminal.type(typed + "\t")
            try await eventually("\(name) to complete \(typed)", within: .seconds(20)) {
                terminal.text.contains(completed)
            }
            // Ctrl-U clears the line.
            terminal.type("\u{15}")
        }
        // No failed job has an id that begins so.
        terminal.forget()
        terminal.type("haul retry he\t")
        terminal.type("\u{15}echo DO''NE\n")
        try await eventually("\(name) to continue", within: .seconds(20)) { terminal.text.contains("DONE") }
        #expect(!terminal.text.contains("held"))
        terminal.type("exit\n")
        _ = try await process.wait()
    }
}
