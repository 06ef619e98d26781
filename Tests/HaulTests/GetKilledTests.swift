import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// `haul get` that is killed before any of the calls by which a file gets its name and is recorded.
@Suite struct GetKilledTests {
    private static let versions = [FileBytes(seed: 51, count: 5000), FileBytes(seed: 52, count: 5000)]

    /// What the command does, and whether the server has another version after the kill.
    enum Kind: String, CaseIterable { case first, named, renamed, replaced }

    @Test(
        "a killed get knows its own file again, and fetches the server's version", arguments: Kind.allCases,
        [false, true])
    func killed(_ kind: Kind, _ deniesLinks: Bool) async throws {
        let steps = try await CommitSteps()
        var kills = 0
        steps: for step in 1...20 {
            for isChanged in step < 4 ? [step == 2] : [false, true] {
                let bench = GetBench()
                let version = Shared(0)
                let origin = try OriginServer { request in
                    .file(
                        Self.versions[version.value % 2], etag: "\"v\(version.value)\"",
                        headers: [("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")], to: request)
                }
                var arguments = [origin.url("/x")]
                if kind == .named { arguments += ["-o", "x"] }
                if kind == .renamed {
                    arguments += ["--if-exists", "rename"]
                    bench.write("x", "another's")
                }
                if kind == .replaced {
                    #expect(try await bench.start(arguments).wait() == 0)
                    version.change { $0 += 1 }
                }
                let name = kind == .renamed ? "x (1)" : "x"
                let flag = "\(step)-\(isChanged)"
                steps.arm(flag)
                let killed = try bench.start(
                    arguments,
                    environment: steps.environment(
                        flag, step: step, signal: SIGKILL, deniesLinks: deniesLinks, countsWrites: true))
                if try await killed.wait() == 0 { break steps }
                kills += 1
                if isChanged { version.change { $0 += 1 } }
                let environment =
                    deniesLinks ? steps.environment("never", step: 1, signal: SIGKILL, deniesLinks: true) : [:]
                for turn in 0..<2 {
                    let get = try bench.start(arguments, environment: environment)
                    #expect(
                        try await get.wait() == 0,
                        "\(kind), step \(step), \(isChanged), turn \(turn): \(get.standardOutput)")
                    #expect(
                        bench.files.holds(name, Self.versions[version.value % 2]),
                        "\(kind), step \(step), \(isChanged): \(get.standardOutput)")
                    #expect(bench.names == (kind == .renamed ? ["x", "x (1)"] : ["x"]), "\(kind), step \(step)")
                    if turn == 1 { #expect(get.standardOutput.contains("same ETag"), "\(get.standardOutput)") }
                }
            }
        }
        #expect(kills > 10)
    }

    @Test(
        "nothing hidden stays of a killed get after --forget, --continue or the same command",
        arguments: [false, true], ["--forget", "--continue", "again"])
    func cleaned(_ deniesLinks: Bool, _ way: String) async throws {
        let steps = try await CommitSteps()
        let origin = try OriginServer { .file(Self.versions[0], to: $0) }
        var (kills, named) = (0, 0)
        for step in 1...20 {
            // The file may have been moved or deleted before anything looks at it again.
            for fate in ["stays", "moved", "deleted", "replaced by another download"] {
                let bench = GetBench()
                let flag = "\(step)-\(fate)"
                steps.arm(flag)
                let killed = try bench.start(
                    [origin.url("/x")],
                    environment: steps.environment(
                        flag, step: step, signal: SIGKILL, deniesLinks: deniesLinks, countsWrites: true))
                if try await killed.wait() == 0 {
                    #expect(kills > 10 && named > 3)
                    return
                }
                kills += 1
                let environment =
                    deniesLinks ? steps.environment("never", step: 1, signal: SIGKILL, deniesLinks: true) : [:]
                let path = bench.files.file("x")
                let isNamed = bench.names.contains("x")
                if isNamed {
                    named += 1
                    switch fate {
                    case "moved": rename(path, path + "-moved")
                    case "deleted": unlink(path)
                    case "replaced by another download":
                        let other = try bench.start(
                            [origin.url("/other"), "-o", "x", "--if-exists", "overwrite"], environment: environment)
                        #expect(try await other.wait() == 0, "\(other.standardOutput)")
                    default: break
                    }
                }
                let get = try bench.start([way == "again" ? origin.url("/x") : way], environment: environment)
                _ = try await get.wait()
                let hidden = bench.names.filter { $0.hasPrefix(".haul") }
                #expect(hidden.isEmpty, "step \(step), \(fate): \(hidden), \(get.standardOutput)")
                if !isNamed { break }
            }
        }
    }

    @Test("fresh_for counts from the bytes, and not from the moment when a later run finds a killed one's file")
    func fresh() async throws {
        let steps = try await CommitSteps()
        var asked = 0
        for step in 1...20 {
            let bench = GetBench()
            let origin = try OriginServer {
                .file(
                    Self.versions[0], etag: "\"v\"", headers: [("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")],
                    to: $0)
            }
            bench.write("list", #"{"url":"\#(origin.url("/x"))","fresh_for":3600}"#)
            steps.arm("\(step)")
            // The file gets the date of the server, as if it had been there for long.
            let killed = try bench.start(
                ["-i", "list", "-R"],
                environment: steps.environment("\(step)", step: step, signal: SIGKILL, countsWrites: true))
            if try await killed.wait() == 0 { break }
            guard bench.names.contains("x") else { continue }
            let before = origin.requests.count
            #expect(try await bench.get("-i", "list", "-R").status == 0)
            asked += origin.requests.count > before ? 1 : 0
        }
        #expect(asked > 0)
    }

    @Test("a run that is about to record its file shares the file with no run of another URL")
    func frozen() async throws {
        let steps = try await CommitSteps()
        let origin = try OriginServer { request in
            .file(
                Self.versions[request.path == "/x?1" ? 0 : 1], etag: nil,
                headers: [("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")], to: request)
        }
        var meetings = 0
        for step in 4...14 {
            let bench = GetBench()
            steps.arm("frozen-\(step)")
            let first = try bench.start(
                [origin.url("/x?1")],
                environment: steps.environment("frozen-\(step)", step: step, signal: SIGSTOP, countsWrites: true))
            try await eventually("the first to stop, or to end") { first.isStopped || !first.isRunning }
            guard first.isRunning else { break }
            meetings += bench.names.contains("x") ? 1 : 0
            let second = try bench.start([origin.url("/x?2")])
            let status = try await second.wait()
            #expect(status == 1 || bench.files.holds("x", Self.versions[1]), "\(step): \(second.standardOutput)")
            first.kill(SIGCONT)
            let end = try await first.wait()
            #expect(end == 1 || bench.files.holds("x", Self.versions[0]), "\(step): \(first.standardOutput)")
            #expect(status + end == 1, "one of them must succeed: \(status), \(end)")
        }
        #expect(meetings > 0)
    }

    @Test("files that are unchanged, or changed on the server, cost no listing of their directory")
    func listings() async throws {
        let steps = try await CommitSteps()
        let version = Shared(1)
        let origin = try OriginServer { request in
            .file(FileBytes(seed: UInt64(version.value), count: 300), etag: "\"v\(version.value)\"", to: request)
        }
        let bench = GetBench()
        let urls = (0..<60).map { origin.url("/f\($0)") }
        for turn in ["new", "unchanged", "changed", "unchanged again"] {
            if turn == "changed" { version.value = 2 }
            let get = try bench.start(urls, environment: steps.counting(turn))
            #expect(try await get.wait() == 0, "\(get.standardOutput)")
            #expect(steps.listings(turn) <= 2, "\(turn): \(steps.listings(turn)) listings")
        }
        #expect(bench.names.count == 60)
    }
}
