import Foundation
import HaulTestSupport
import Testing

/// What the command generates from its own help: manual pages and completion scripts.
@Suite struct ManualTests {
    @Test("each command has a manual page, and mandoc finds no fault in it") func pages() async throws {
        let bench = try await CommandBench()
        let directory = TemporaryDirectory()
        #expect(try await bench.haul("manual", "--directory", directory.path).status == 0)
        let help = try await bench.haul("--help").out
        let verbs = try #require(help.components(separatedBy: "SUBCOMMANDS:").last).split(separator: "\n")
            .compactMap { line in line.firstMatch(of: #/^  ([a-z-]+)  /#).map { String($0.1) } }
        #expect(verbs.count > 15)
        #expect(Set(directory.names) == Set(verbs.map { "haul-\($0).1" } + ["haul.1"]))
        let lint = try ChildProcess("mandoc", ["-T", "lint", "-W", "all"] + directory.names.map(directory.file))
        let status = try await lint.wait()
        // mandoc does not find the pages to which these refer, because they are not installed.
        let complaints = lint.standardOutput.split(separator: "\n").filter {
            !$0.contains("referenced manual not found")
        }
        #expect(complaints.isEmpty, "\(complaints)")
        #expect(status <= 2)
        let page = try await bench.haul("manual", "push")
        #expect(page.out == String(decoding: directory.contents("haul-push.1") ?? [], as: UTF8.self))
        #expect(page.out.contains("\\-\\-if\\-exists") && page.out.contains("Queue downloads"))
        #expect(try await bench.haul("manual", "nonsense").status == 2)
        // An option that is only refused with a message is not described.
        #expect(try await !bench.haul("manual", "top").out.contains("json"))
        #expect(try await bench.haul("top", "--json").err.contains("use haul stats --json"))
    }

    /// The completions that bash offers for a `line` whose last word is to be completed.
    private func completions(_ line: String, _ bench: CommandBench) async throws -> [String] {
        let script = """
            shopt -s extglob progcomp
            source <("$HAUL" completions bash)
            haul() { "$HAUL" "$@"; }
            words=(\(line.hasSuffix(" ") ? line + "''" : line))
            COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1)) COMP_LINE='\(line)' COMP_POINT=\(line.count)
            COMPREPLY=()
            _haul haul "${words[-1]}" "${words[-2]}"
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        let haul = try #require(ChildProcess.path(of: "haul"))
        let bash = try ChildProcess(
            "bash", ["-c", script], environment: ["HAUL_REDIS": bench.server.url, "HAUL": haul])
        #expect(try await bash.wait() == 0)
        #expect(bash.standardError == "")
        return bash.standardOutput.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    @Test("bash completes commands, options, values, and only the ids that the command applies to")
    func bash() async throws {
        let bench = try await CommandBench()
        for (state, id) in [("failed", "broken"), ("paused", "held"), ("completed", "done")] {
            try await bench.server.cli("HSET", "haul:{default}:job:\(id)", "state", state)
            try await bench.server.cli("ZADD", "haul:{default}:\(state)", "1", id)
        }
        #expect(try await Set(completions("haul pu", bench)) == ["push", "put"])
        #expect(try await completions("haul push --if-", bench) == ["--if-exists"])
        #expect(try await completions("haul push --if-exists over", bench) == ["overwrite"])
        #expect(try await completions("haul retry br", bench) == ["broken"])
        #expect(try await completions("haul retry he", bench) == [])
        try await bench.server.cli("LPUSH", "haul:{elsewhere}:jobs", "{}")
        #expect(try await completions("haul stats --queue else", bench) == ["elsewhere"])
        #expect(Set(try await completions("haul show ", bench)).isSuperset(of: ["broken", "held", "done"]))
        #expect(try await completions("haul retry --queue other br", bench) == [])
    }
}
