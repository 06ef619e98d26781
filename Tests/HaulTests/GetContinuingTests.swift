import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// What `haul get` continues, and what it does not.
@Suite struct GetContinuingTests {
    private static let bytes = FileBytes(seed: 91, count: 3_000_000)

    /// An origin that holds each file at 200 KB until the latch is opened.
    private func origin(_ gate: Latch) throws -> OriginServer {
        try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (200_000, gate)
            return reply
        }
    }

    @Test("Ctrl-C and kill -9 leave a download that the same command continues, and no leftovers")
    func interrupted() async throws {
        for signal in [SIGINT, SIGKILL] {
            let (bench, gate) = (GetBench(), Latch())
            let origin = try origin(gate)
            let first = try bench.start([origin.url("/x.bin"), "-x1"])
            try await eventually("a record") { bench.recorded > 0 }
            first.kill(signal)
            #expect(try await first.wait() == (signal == SIGINT ? 130 : 137))
            if signal == SIGINT { #expect(first.standardError.contains("run the same command again")) }
            let recorded = bench.recorded
            #expect(recorded > 0 && bench.names.allSatisfy { $0.hasPrefix(".haul-") })
            gate.open()
            let second = try await bench.get(origin.url("/x.bin"))
            #expect(second.status == 0, "\(second)")
            #expect(bench.files.holds("x.bin", Self.bytes) && bench.names == ["x.bin"])
            #expect(origin.requests.contains { $0.headers["range"]?.hasPrefix("bytes=\(recorded)-") == true })
            #expect(second.out.contains("completed  x.bin  3.0 MB") && second.out.contains("verified: size"))
        }
    }

    @Test(
        "--continue gives a file a number only with rename, and never replaces the file of another one that it continues",
        arguments: ["reuse", "overwrite", "rename", "fail", "skip"], [true, false])
    func continuedName(_ policy: String, _ hasBytes: Bool) async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(gate)
        for (count, path) in [(1, "/a/x"), (2, "/b/x")] {
            func interrupt(after isReached: @escaping @Sendable () -> Bool) async throws {
                let get = try bench.start([origin.url(path), "-x1", "--if-exists", policy])
                try await eventually("the download to begin", isReached)
                get.kill(SIGINT)
                #expect(try await get.wait() == 130)
            }
            let asked = origin.requests.count
            try await interrupt { origin.requests.count > asked }
            // Bytes that had not arrived when it was interrupted arrive in one of the next runs.
            for delay in 0..<50 where hasBytes && bench.names.count(where: { $0.hasPrefix(".haul-") }) < count {
                let asked = (origin.requests.count, ContinuousClock.now + .milliseconds(10 * delay))
                try await interrupt { origin.requests.count > asked.0 && .now > asked.1 }
            }
        }
        gate.open()
        let both = try await bench.get("--continue")
        let isNamed = ["rename", "skip"].contains(policy)
        #expect(both.status == (isNamed ? 0 : 1), "\(both)")
        #expect(bench.names.filter { !$0.hasPrefix(".") } == (policy == "rename" ? ["x", "x (1)"] : ["x"]), "\(both)")
        #expect(bench.files.holds("x", Self.bytes))
    }

    @Test("get does only its own downloads, reports unfinished ones, and continues them with --continue")
    func others() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(gate)
        let first = try bench.start([origin.url("/a"), origin.url("/b"), "-x1"])
        try await eventually("both to begin") { origin.requests.count == 2 && bench.recorded > 0 }
        first.kill(SIGINT)
        #expect(try await first.wait() == 130)
        gate.open()
        let asked = origin.requests.count
        let other = try await bench.get(origin.url("/c"))
        #expect(other.status == 0)
        #expect(other.err.contains("left 2 downloads unfinished") && other.err.contains("--continue"), "\(other)")
        #expect(origin.requests.dropFirst(asked).allSatisfy { $0.path == "/c" })
        #expect(bench.names.filter { !$0.hasPrefix(".") } == ["c"])
        let rest = try await bench.get("--continue")
        #expect(rest.status == 0, "\(rest)")
        for name in ["a", "b", "c"] { #expect(bench.files.holds(name, Self.bytes)) }
        #expect(bench.names == ["a", "b", "c"])
        let none = try await bench.get("--continue")
        #expect(none.status == 0 && none.err.contains("nothing is left"))
    }

    @Test("the files of a list below the directory are found there, and a Metalink is followed by a later command")
    func below() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try OriginServer { request in
            guard request.path == "/four" else { return .file(Self.bytes, to: request) }
            let text = """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="disc">
                <url>http://\(request.headers["host"] ?? "")/f</url></file></metalink>
                """
            var reply = OriginReply(
                headers: [("Content-Type", "application/metalink4+xml")], body: Array(text.utf8))
            if request.number <= 2 { reply.hold = (0, gate) }
            return reply
        }
        let slow = try self.origin(gate)
        let list = "\(slow.url("/a"))\n out=sub/a\n\(origin.url("/four"))\n"
        let first = try bench.start(["-i", "-", "-x1", "-j1"], input: list)
        try await eventually("a record") { bench.recorded > 0 }
        first.kill(SIGINT)
        #expect(try await first.wait() == 130)
        gate.open()
        let below = try bench.start(["--continue", "-d", "sub"])
        #expect(try await below.wait() == 0 && bench.files.holds("sub/a", Self.bytes), "\(below.standardError)")
        #expect(origin.requests.isEmpty)
        let rest = try await bench.get("--continue")
        #expect(rest.status == 0 && bench.names == ["disc", "sub"], "\(rest)")
    }

    @Test("--forget removes what an earlier command has left") func forgotten() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(gate)
        let first = try bench.start([origin.url("/a"), "-x1"])
        try await eventually("a record") { bench.recorded > 0 }
        first.kill(SIGKILL)
        _ = try await first.wait()
        gate.open()
        let forgotten = try await bench.get("--forget")
        #expect(forgotten.status == 0 && forgotten.err.contains("removed the unfinished a"), "\(forgotten)")
        #expect(bench.names.isEmpty && bench.recorded == 0)
    }

    @Test("commands in one directory are independent, and the second one for a URL waits")
    func several() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(gate)
        let first = try bench.start([origin.url("/a"), "-x1"])
        try await eventually("the first to begin") { bench.recorded > 0 }
        let same = try bench.start([origin.url("/a"), "-x1"])
        let other = try bench.start([origin.url("/b"), "-x1"])
        try await eventually("the second to wait") { same.standardError.contains("waiting for that") }
        gate.open()
        for process in [first, same, other] { #expect(try await process.wait() == 0, "\(process.standardError)") }
        #expect(same.standardOutput.hasPrefix("unchanged  a") && same.standardOutput.contains("same ETag"))
        #expect(bench.names == ["a", "b"] && bench.files.holds("a", Self.bytes) && bench.files.holds("b", Self.bytes))
        #expect(origin.bytesSent("/a") == Self.bytes.count)
    }

    @Test("a signed URL continues a named file, and without a name it is a file of its own")
    func renewed() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            .file(
                FileBytes(seed: request.path.hasSuffix("1") ? 1 : 2, count: 5000), etag: "\"\(request.path)\"",
                to: request)
        }
        #expect(try await bench.get(origin.url("/f?id=1")).status == 0)
        let second = try await bench.get(origin.url("/f?id=2"))
        #expect(second.status == 1 && bench.files.holds("f", FileBytes(seed: 1, count: 5000)), "\(second)")
        #expect(second.err.contains("file_exists") || bench.names == ["f"])
        let (gate, slow) = (Latch(), GetBench())
        let held = try self.origin(gate)
        let first = try slow.start([held.url("/x?sig=1"), "-o", "x", "-x1"])
        try await eventually("a record") { slow.recorded > 0 }
        first.kill(SIGKILL)
        _ = try await first.wait()
        gate.open()
        #expect(try await slow.get(held.url("/x?sig=2"), "-o", "x").status == 0)
        #expect(held.requests.last?.headers["range"] != nil && slow.names == ["x"])
    }

    private static let secrets = [
        "-u", "me:password", "-H", "X-Team: films", "-b", "sid=1", "--config", "get.conf",
    ]

    private func secrets(in request: OriginRequest) -> [String] {
        ["authorization", "x-team", "x-default", "cookie"].filter { request.headers[$0] != nil }
    }

    @Test("--continue sends passwords, headers and cookies to no host that the server of a list has chosen")
    func foreign() async throws {
        let (bench, gate, list) = (GetBench(), Latch(), Shared(""))
        let other = try origin(gate)
        let origin = try OriginServer { request in
            if request.path == "/list" { return OriginReply(body: Array(list.value.utf8)) }
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (200_000, gate)
            return reply
        }
        list.value = [origin.url("/a"), other.url("/b"), other.url("/c")].joined(separator: "\n")
        bench.write("get.conf", "[127.0.0.1]\nheader = X-Default: 1\n")
        let first = try bench.start(
            ["-i", origin.url("/list"), "-x1", "-j2", "--no-config"], environment: ["TMPDIR": bench.home.path])
        try await eventually("two to begin") {
            bench.recorded > 0 && other.requests.count == 1 && origin.requests.count == 2
        }
        first.kill(SIGINT)
        #expect(try await first.wait() == 130)
        gate.open()
        let rest = try bench.start(["--continue"] + Self.secrets)
        #expect(try await rest.wait() == 0, "\(rest.standardError)")
        for name in ["a", "b", "c"] { #expect(bench.files.holds(name, Self.bytes)) }
        #expect(Set(other.requests.map(\.path)) == ["/b", "/c"])
        for request in other.requests { #expect(secrets(in: request) == [], "\(request.path)") }
        let own = try #require(origin.requests.last)
        #expect(own.path == "/a" && secrets(in: own) == ["authorization", "x-team", "x-default", "cookie"])
    }

    @Test(
        "--continue sends them to the hosts of the user's own URLs, unless an older version has recorded the download",
        arguments: [false, true])
    func recordedByOlderVersion(_ isOlder: Bool) async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(gate)
        bench.write("get.conf", "[127.0.0.1]\nheader = X-Default: 1\n")
        let first = try bench.start([origin.url("/a"), "-x1", "--no-config"])
        try await eventually("a record") { bench.recorded > 0 }
        first.kill(SIGINT)
        #expect(try await first.wait() == 130)
        let journal = URL(filePath: bench.home.file("haul/get/journal"))
        if isOlder {
            let text = try String(contentsOf: journal, encoding: .utf8)
            try Data(text.replacing("\"list\":\"\",", with: "").utf8).write(to: journal)
        }
        gate.open()
        let asked = origin.requests.count
        let rest = try bench.start(["--continue"] + Self.secrets)
        #expect(try await rest.wait() == 0 && bench.files.holds("a", Self.bytes), "\(rest.standardError)")
        let expected = isOlder ? [] : ["authorization", "x-team", "x-default", "cookie"]
        #expect(origin.requests.count > asked && secrets(in: origin.requests.last!) == expected)
        #expect(rest.standardError.contains("an older version has recorded a") == isOlder, "\(rest.standardError)")
    }

    @Test("--continue sends no request whose body or header fields are not recorded; the same list does")
    func partlyRecorded() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try OriginServer { request in
            var reply = OriginReply(body: request.body.bytes + Array((request.headers["x-own"] ?? "").utf8))
            reply.hold = (0, gate)
            return reply
        }
        let list = """
            {"url":"\(origin.url("/report"))","method":"POST","body":"year=2025","path":"2025"}
            {"url":"\(origin.url("/report"))","method":"POST","body":"year=2026","path":"2026"}
            \(origin.url("/fields"))
              header=X-Own: mine
            """
        let first = try bench.start(["-i", "-", "-j1"], input: list)
        try await eventually("a request") { !origin.requests.isEmpty }
        first.kill(SIGINT)
        #expect(try await first.wait() == 130)
        gate.open()
        let asked = origin.requests.count
        let other = try await bench.get("--continue")
        #expect(other.status == 1 && other.err.contains("give the same list again"), "\(other)")
        #expect(origin.requests.count == asked && !other.err.contains("nothing is left"))
        let again = try await bench.get("-i", "-", input: list)
        #expect(again.status == 0, "\(again)")
        for (name, text) in [("2025", "year=2025"), ("2026", "year=2026"), ("fields", "mine")] {
            #expect(bench.files.contents(name) == Array(text.utf8))
        }
        #expect(try await bench.get("--continue").err.contains("nothing is left"))
    }

    @Test("limits of options and defaults are not part of what --continue continues") func limits() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(gate)
        bench.write("get.conf", "[127.0.0.1]\nlimit-rate = 100M\n")
        let first = try bench.start([origin.url("/a"), "-x1", "--min-speed", "1k", "--config", "get.conf"])
        try await eventually("a record") { bench.recorded > 0 }
        first.kill(SIGINT)
        #expect(try await first.wait() == 130)
        gate.open()
        let log = String(decoding: bench.home.contents("haul/get/journal") ?? [], as: UTF8.self)
        #expect(log.contains("/a") && !log.contains("min_speed") && !log.contains("limit_rate"), "\(log)")
        // The defaults of now hold.
        bench.write("get.conf", "[127.0.0.1]\nretries = 5000\n")
        let wrong = try await bench.get("--continue", "--config", "get.conf")
        #expect(wrong.status == 2 && wrong.err.contains("get.conf:2: retries"), "\(wrong)")
        #expect(try await bench.get("--continue").status == 0 && bench.files.holds("a", Self.bytes))
    }
}
