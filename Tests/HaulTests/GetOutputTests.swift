import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// Standard output, and output for programs.
@Suite struct GetOutputTests {
    private static let bytes = FileBytes(seed: 95, count: 3_000_000)

    private func shell(_ bench: GetBench, _ line: String) throws -> ChildProcess {
        try ChildProcess(
            "/bin/sh", ["-c", line, try #require(ChildProcess.path(of: "haul"))],
            environment: ["XDG_STATE_HOME": bench.home.path])
    }

    @Test("a directory that cannot be written is reported in one sentence") func unwritable() async throws {
        let bench = GetBench()
        let origin = try OriginServer { _ in OriginReply(body: [1, 2, 3]) }
        let result = try await bench.get("-d", "/proc", origin.url("/q"))
        #expect(result.status == 1 && (result.out + result.err).contains("cannot be written"), "\(result)")
    }

    @Test("-o - writes the file to standard output, also across broken connections") func stream() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { (reply.cut, reply.end) = (1_000_000, .reset) }
            return reply
        }
        let out = bench.files.file("out")
        let get = try shell(bench, "\"$0\" get \(origin.url("/x")) -o - > '\(out)'")
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(bench.files.holds("out", Self.bytes) && bench.names == ["out"])
        #expect(get.standardError.contains("as they arrive") && get.standardError.contains("verified: size"))
        #expect(origin.requests.last?.headers["if-range"] == "\"v1\"")
    }

    @Test("with a checksum nothing is written before the whole file is verified") func verified() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let out = bench.files.file("out")
        let line = "\"$0\" get \(origin.url("/x")) -o - --checksum sha256:"
        let right = try shell(bench, line + Self.bytes.sha256 + " > '\(out)'")
        #expect(try await right.wait() == 0, "\(right.standardError)")
        #expect(bench.files.holds("out", Self.bytes) && right.standardError.contains("before the first byte"))
        let wrong = try shell(bench, line + String(repeating: "0", count: 64) + " > '\(out)'")
        #expect(try await wrong.wait() == 1)
        #expect(bench.files.contents("out") == [] && wrong.standardError.contains("checksum_mismatch"))
    }

    @Test(
        "a download to standard output, or of a list, that fails leaves nothing in TMPDIR",
        arguments: [["-o", "-", "--checksum", "sha256:" + bytes.sha256, "%U"], ["-i", "%U"]])
    func failed(_ words: [String]) async throws {
        let (bench, scratch) = (GetBench(), TemporaryDirectory())
        let origin = try OriginServer { request in
            guard request.number == 1 else { return OriginReply(404) }
            var reply = OriginReply.file(Self.bytes, to: request)
            (reply.cut, reply.end) = (1_000_000, .reset)
            return reply
        }
        let arguments = words.map { $0.replacing("%U", with: origin.url("/x")) } + ["-x1"]
        let get = try bench.start(arguments, environment: ["TMPDIR": scratch.path])
        #expect(try await get.wait() == 1, "\(get.standardError)")
        #expect(!origin.requests.isEmpty && scratch.names.isEmpty, "\(scratch.names)")
    }

    @Test("with a checksum, too, cookies of the command are not sent to hosts that a server's list has chosen")
    func foreignCookies() async throws {
        let (bench, list) = (GetBench(), Shared(""))
        let other = try OriginServer { .file(Self.bytes, to: $0) }
        let origin = try OriginServer { _ in OriginReply(body: Array(list.value.utf8)) }
        list.value = "\(other.url("/x"))\n checksum=sha-256=\(Self.bytes.sha256)\n"
        bench.write("jar", "127.0.0.1\tFALSE\t/\tFALSE\t0\tfile\tsecret\n")
        let get = try bench.start(["-q", "-o", "-", "-b", "sid=secret", "-b", "jar", "-i", origin.url("/list")])
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(origin.requests[0].headers["cookie"] != nil)
        #expect(other.requests.count == 1 && other.requests[0].headers["cookie"] == nil)
    }

    @Test("a list's directories are not made for standard output") func noDirectory() async throws {
        let (bench, origin) = (GetBench(), try OriginServer { _ in OriginReply(body: [65]) })
        let name = "haul-\(UInt64.random(in: 0...(.max)))"
        let list = "\(origin.url("/x"))\n dir=\(name)\n"
        let get = try await bench.get("-q", "-o", "-", "-i", "-", input: list)
        #expect(get.status == 0 && get.out == "A" && rmdir("/\(name)") != 0, "\(get)")
    }

    @Test("a second version is never written after a part of the first") func changed() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, etag: "\"\(request.number)\"", to: request)
            if request.number == 1 { (reply.cut, reply.end) = (1_000_000, .reset) }
            return reply
        }
        let out = bench.files.file("out")
        let get = try shell(bench, "\"$0\" get \(origin.url("/x")) -o - > '\(out)'")
        #expect(try await get.wait() == 1)
        let written = try #require(bench.files.contents("out"))
        #expect(written == Self.bytes.bytes(0..<Int64(written.count)) && get.standardError.contains("remote_changed"))
    }

    @Test("--json prints one object per line, and -q prints only failures") func forms() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            if request.path == "/absent" { return OriginReply(404) }
            guard request.path == "/broken" else { return .file(Self.bytes, to: request) }
            // Without a validator nothing can continue it.
            var reply = OriginReply(body: Self.bytes.all)
            (reply.cut, reply.end) = (1_000_000, .reset)
            return reply
        }
        let json = try await bench.get("--json", origin.url("/a"), origin.url("/absent"))
        let events = try GetBench.events(json.out)
        #expect(json.status == 1 && json.err.isEmpty)
        let done = try #require(events.first { $0["event"]?.string == "completed" })
        #expect(done["bytes"]?.integer == Self.bytes.count && done["verified"]?.string == "size")
        #expect(done["file"]?.string == bench.files.file("a") && done["url"]?.string == origin.url("/a"))
        let failed = try #require(events.first { $0["event"]?.string == "failed" })
        #expect(failed["error"]?.string == "http_404")
        #expect(failed["retryable"] == .bool(false) && failed["received"]?.integer == 0)
        #expect(done["etag"]?.string == "\"v1\"")
        let again = try #require(try GetBench.events(try await bench.get("--json", origin.url("/a")).out).last)
        #expect(again["unchanged"] == .bool(true) && again["etag"]?.string == "\"v1\"" && again["seconds"] != nil)
        let broken = try await bench.get("--json", "--retries", "0", "-x1", origin.url("/broken"))
        let end = try #require(try GetBench.events(broken.out).last)
        #expect(end["event"]?.string == "failed" && end["retryable"] == .bool(true), "\(broken)")
        #expect(end["received"]?.integer != nil, "\(broken)")
        #expect(events.contains { $0["event"]?.string == "started" && $0["resumable"] == .bool(true) })
        let quiet = try await bench.get("-q", origin.url("/b"), origin.url("/absent"))
        #expect(quiet.status == 1 && quiet.out.isEmpty && quiet.err.contains("http_404"), "\(quiet)")
    }

    @Test("a file without a proven end, or compressed unasked, gets its warning also with -o -")
    func warnings() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            var reply = OriginReply(
                headers: request.path == "/br" ? [("Content-Encoding", "br")] : [], body: Self.bytes.bytes(0..<1000))
            reply.framing = request.path == "/close" ? .close : request.path == "/chunked" ? .chunked : .length
            return reply
        }
        for arguments in [[], ["-o", "-"], ["-o", "/dev/null"]] {
            func get(_ path: String) async throws -> String {
                let get = try bench.start(arguments + [origin.url(path)])
                #expect(try await get.wait() == 0)
                return get.standardError + get.standardOutput
            }
            let (close, chunked, br) = (try await get("/close"), try await get("/chunked"), try await get("/br"))
            #expect(close.contains("may be incomplete") && close.contains("verified: nothing"), "\(close)")
            #expect(!chunked.contains("may be incomplete") && chunked.contains("verified: end"), "\(chunked)")
            #expect(br.contains("compressed although") && br.contains("verified: size"), "\(br)")
        }
    }

    @Test("the last line of --json about a download is its end") func lastLine() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            // All of them end around the time of the first line about the progress.
            reply.delay = .milliseconds(850 + 10 * (Int(request.path.dropFirst()) ?? 0))
            return reply
        }
        let get = try await bench.get("--json", "-x1", origin.url("/[1-30]"))
        var last: [String: String] = [:]
        for event in try GetBench.events(get.out) { last[event["id"]?.string ?? ""] = event["event"]?.string }
        #expect(get.status == 0 && last.count == 30 && last.values.allSatisfy { $0 == "completed" }, "\(last)")
    }

    @Test("files are placed by -o and -d") func places() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(FileBytes(seed: 1, count: 10), to: $0) }
        #expect(try await bench.get(origin.url("/a"), "-o", "sub/x").out.contains("completed  sub/x"))
        #expect(try await bench.get(origin.url("/a"), origin.url("/b"), "-o", "dir/").status == 0)
        #expect(try await bench.get(origin.url("/a"), "-d", "deep/er", "-o", "y").status == 0)
        for name in ["sub/x", "dir/a", "dir/b", "deep/er/y"] { #expect(bench.files.contents(name)?.count == 10) }
        let long = try await bench.get(origin.url("/" + String(repeating: "n", count: 300) + ".txt"))
        #expect(long.status == 0 && bench.names.contains { $0.utf8.count == 255 && $0.hasSuffix(".txt") }, "\(long)")
    }

    @Test("files with checksums that follow one another leave no descriptor open") func descriptors() async throws {
        let (bench, bytes) = (GetBench(), FileBytes(seed: 3, count: 10))
        let origin = try OriginServer { .file(bytes, to: $0) }
        let list = (1...90).map { "\(origin.url("/\($0)"))\n checksum=sha-256=\(bytes.sha256)\n" }.joined()
        let haul = try #require(ChildProcess.path(of: "haul"))
        let get = try ChildProcess(
            "/bin/sh", ["-c", "ulimit -n 64; exec \"$0\" get -q -o - -i -", haul],
            environment: ["XDG_STATE_HOME": bench.home.path, "TMPDIR": bench.home.path, "no_proxy": ""], input: list)
        #expect(try await get.wait() == 0, "\(get.standardError.prefix(500))")
        #expect(get.standardOutput.utf8.count >= 90)
    }

    @Test("pipes of several -o are written one after the other, and each ends with its file") func pipes() async throws
    {
        let bench = GetBench()
        let origin = try OriginServer { OriginReply(body: Array("the body of \($0.path)".utf8)) }
        for name in ["p1", "p2"] { mkfifo(bench.files.file(name), 0o600) }
        // As a script reads them: the second one only after the end of the first one.
        let reader = try ChildProcess(
            "/bin/sh", ["-c", #"cd "$0"; cat p1; cat p2"#, bench.files.path])
        let both = try await bench.get(origin.url("/1"), "-o", "p1", origin.url("/2"), "-o", "p2")
        #expect(both.status == 0 && both.out.isEmpty, "\(both)")
        #expect(try await reader.wait() == 0 && reader.standardOutput == "the body of /1the body of /2")
    }

    @Test("a pipe that nothing reads ends with --max-time, and with a signal") func unread() async throws {
        let bench = GetBench()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        mkfifo(bench.files.file("p"), 0o600)
        let late = try await bench.get("--max-time", "1", "-o", "p", origin.url("/1"))
        #expect(late.status == 1 && late.err.contains("which has no reader, was not done within the 1 s"), "\(late)")
        let get = try bench.start(["-o", "p", origin.url("/1")])
        try await eventually("the wait for a reader") { get.standardError.contains("p has no reader yet") }
        get.kill(SIGINT)
        #expect(try await get.wait() != 0)
        #expect(origin.requests.isEmpty)
    }

    @Test("-o names a pipe in the directory of -d, and no file elsewhere") func pipeInDirectory() async throws {
        let bench = GetBench()
        let origin = try OriginServer { _ in OriginReply(body: Array("new".utf8)) }
        mkdir(bench.files.file("sub"), 0o700)
        mkfifo(bench.files.file("sub/x"), 0o600)
        bench.write("x", "keep me")
        let reader = try ChildProcess("cat", [bench.files.file("sub/x")])
        let get = try await bench.get("-d", "sub", "-o", "x", origin.url("/1"))
        #expect(get.status == 0, "\(get)")
        #expect(bench.files.contents("x") == Array("keep me".utf8))
        #expect(try await reader.wait() == 0 && reader.standardOutput == "new")
    }
}
