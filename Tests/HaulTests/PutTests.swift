import Foundation
import Glibc
import HaulTestSupport
import Testing

/// `haul put`, which needs no Redis.
@Suite(.timeLimit(.minutes(2))) struct PutTests {
    private let directory = TemporaryDirectory()

    private func put(_ arguments: String...) async throws -> (status: Int32, out: String, err: String) {
        let process = try ChildProcess("haul", ["put"] + arguments)
        let status = try await process.wait()
        return (status, process.standardOutput, process.standardError)
    }

    private func file(_ name: String, _ bytes: [UInt8]) throws -> String {
        let path = directory.file(name)
        try Data(bytes).write(to: URL(filePath: path))
        return path
    }

    @Test("files are sent under their names, in a form, and by tus") func ways() async throws {
        let server = TusScript()
        let origin = try OriginServer { request in
            request.path.hasPrefix("/files")
                ? server.answer(request) : OriginReply(201, body: Array("thanks".utf8))
        }
        let bytes = FileBytes(seed: 8, count: 1_500_000).all
        let (first, second) = (try file("a b.bin", bytes), try file("c.bin", [1, 2]))
        let both = try await put(first, second, origin.url("/in/"), "-H", "X-A: b")
        #expect(both.status == 0 && both.out.contains("HTTP 201") && both.err.isEmpty, "\(both.err)")
        let puts = origin.requests.sorted { $0.path < $1.path }
        #expect(puts.map(\.path) == ["/in/a%20b.bin", "/in/c.bin"] && puts.allSatisfy { $0.method == "PUT" })
        #expect(puts[0].body.bytes == bytes && puts[1].body.bytes == [1, 2])
        #expect(puts.allSatisfy { $0.headers["x-a"] == "b" })
        try FileManager.default.createDirectory(atPath: directory.file("other"), withIntermediateDirectories: true)
        let equal = try await put(second, try file("other/c.bin", [3]), origin.url("/in/"))
        #expect(equal.status == 2 && equal.err.contains("would both be sent to"), "\(equal.err)")
        #expect(origin.requests.count == 2)
        let form = try await put("--field", "a=b", first, second, origin.url("/form"), "--body", "-q")
        #expect(form.status == 0 && form.out == "thanks", "\(form.err)")
        #expect(origin.requests.last?.headers["content-type"]?.hasPrefix("multipart/form-data; boundary=") == true)
        let tus = try await put("--tus", first, origin.url("/files"))
        #expect(tus.status == 0 && server.finished == [bytes], "\(tus.err)")
    }

    @Test("a file is sent under its own name, whatever characters its directory has") func directories() async throws {
        let origin = try OriginServer { _ in OriginReply(201) }
        try FileManager.default.createDirectory(atPath: directory.file("Ü文"), withIntermediateDirectories: true)
        let first = try file("Ü文/111.bin", [1])
        for (name, bytes) in [("11.bin", [2]), ("1.bin", [3]), (".bin", [4])] as [(String, [UInt8])] {
            _ = try file("Ü文/" + name, bytes)
        }
        let one = try await put(first, origin.url("/in/"))
        #expect(one.status == 0, "\(one)")
        #expect(origin.requests.map(\.path) == ["/in/111.bin"] && origin.requests[0].body.bytes == [1])
    }

    @Test("a file behind a symbolic link is sent under the name of the link, however it is sent") func links()
        async throws
    {
        let server = TusScript()
        let origin = try OriginServer { request in
            request.path.hasPrefix("/files") ? server.answer(request) : OriginReply(201)
        }
        _ = try file("build-17", [1, 7])
        let link = directory.file("latest")
        try #require(symlink("build-17", link) == 0)
        #expect(try await put(link, origin.url("/up/")).status == 0)
        #expect(origin.requests.map(\.path) == ["/up/latest"] && origin.requests[0].body.bytes == [1, 7])
        #expect(try await put(link, directory.file("build-17"), origin.url("/both/")).status == 0)
        #expect(Set(origin.requests.dropFirst().map(\.path)) == ["/both/latest", "/both/build-17"])
        #expect(try await put("--form", link, origin.url("/form")).status == 0)
        let form = String(decoding: try #require(origin.requests.last).body.bytes, as: UTF8.self)
        #expect(form.contains("filename=\"latest\""), "\(form)")
        #expect(try await put("--tus", link, origin.url("/files")).status == 0 && server.finished == [[1, 7]])
        let created = origin.requests.first { $0.method == "POST" && $0.path == "/files" }
        let metadata = try #require(created?.headers["upload-metadata"])
        #expect(metadata.contains("filename \(Data("latest".utf8).base64EncodedString())"), "\(metadata)")
    }

    @Test("--body writes the bytes of a response as they are") func body() async throws {
        let origin = try OriginServer { _ in OriginReply(201, body: [0xFF, 0x00, 0xC3, 0x0A]) }
        let path = try file("a", [1])
        let put = try ChildProcess(
            "/bin/sh",
            [
                "-c", "\"$1\" put --body -q \"$2\" \"$3\" >\"$4\"", "sh", try #require(ChildProcess.path(of: "haul")),
                path, origin.url("/x"), directory.file("out"),
            ])
        #expect(try await put.wait() == 0, "\(put.standardError)")
        #expect(directory.contents("out") == [0xFF, 0x00, 0xC3, 0x0A])
    }

    @Test("a server that does not run is tried once") func unreachable() async throws {
        let result = try await put(try file("a", [1]), "http://127.0.0.1:1/")
        #expect(
            result.status == 1 && result.err.contains("connect") && !result.err.contains("again in"), "\(result.err)")
    }

    @Test("a server that creates uploads without a Location, or speaks only TLS, is tried once")
    func final() async throws {
        let path = try file("a", [1])
        let origin = try OriginServer { request in OriginReply(request.method == "OPTIONS" ? 204 : 201) }
        let tus = try await put("--tus", path, origin.url("/files"))
        #expect(
            tus.status == 1 && tus.err.contains("without a Location: \(origin.url("/files"))")
                && !tus.err.contains("again in"), "\(tus.err)")
        #expect(origin.requests.count { $0.method == "POST" } == 1)
        let secure = try OriginServer(certificates: try await Certificates()) { _ in OriginReply(201) }
        let put = try await put(path, secure.url("/x").replacing("https", with: "http"))
        #expect(
            put.status == 1 && put.err.contains("127.0.0.1:\(secure.port) speaks TLS") && !put.err.contains("again in"),
            "\(put.err)")
    }

    @Test("a failed upload is reported, and the exit status shows it") func refused() async throws {
        let origin = try OriginServer { _ in OriginReply(403, body: Array("no".utf8)) }
        let path = try file("a", [1])
        let refused = try await put(path, origin.url("/x"), "--body")
        #expect(refused.status == 1 && refused.err.contains("http_403") && refused.out == "no")
        for (arguments, words) in [
            ([path], "FILE"), ([path, path, "http://h/x"], "ends with /"), ([path, "ftp://h/"], "url: must be"),
            (["/no/such", "http://h/"], "No such file"), ([directory.path, "http://h/"], "is a directory"),
            (["-", "http://me:x@h/?sig=x"], "- has no name to add to http://h/?sig=[masked]: "),
            (["-", "-", "http://h/x", "--form"], "standard input is given twice"),
            (["/dev/null", "http://h/"], "/dev/null is a device"),
            ([path, "http://h/", "--tus", "-X", "POST"], "protocol: requires file"),
            ([path, "http://h/", "--content-digest", "md5"], "content_digest: must be"),
            ([path, "http://h/", "-X", "GET"], "method: must be"),
        ] {
            let process = try ChildProcess("haul", ["put"] + arguments)
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        #expect(origin.requests.count == 1)
    }

    @Test("a tus server that has more bytes after a broken request than were sent is not believed")
    func claimedWhole() async throws {
        let (server, size) = (TusScript(), 24 << 20)
        let intake: @Sendable (OriginRequest) -> OriginIntake = { request in
            var intake = OriginIntake()
            if request.method == "PATCH" { (intake.cut, intake.isReset) = (100_000, true) }
            return intake
        }
        let origin = try OriginServer(intake: intake) { request in
            var reply = server.answer(request)
            guard request.method == "HEAD" else { return reply }
            reply.headers = reply.headers.map { $0.0 == "Upload-Offset" ? ($0.0, "\(size)") : $0 }
            return reply
        }
        let path = directory.file("whole")
        try Data(FileBytes(seed: 3, count: Int64(size)).all).write(to: URL(filePath: path))
        let put = try await put("--tus", path, origin.url("/files"))
        #expect(put.status == 1 && put.err.contains("the tus server has \(size) bytes of "), "\(put)")
    }

    @Test("a closed standard input is an error, and no empty file") func closedInput() async throws {
        let origin = try OriginServer { _ in OriginReply(201) }
        let haul = try #require(ChildProcess.path(of: "haul"))
        let put = try ChildProcess("sh", ["-c", "\"$1\" put - \"$2\" <&-", "sh", haul, origin.url("/a")])
        #expect(try await put.wait() == 1)
        #expect(
            put.standardError.contains("standard input cannot be read: Bad file descriptor"), "\(put.standardError)")
        #expect(origin.requests.isEmpty)
    }

    @Test("a message about a sent POST names no field of a job") func message() async throws {
        let origin = try OriginServer { _ in
            var reply = OriginReply(201, body: [1, 2, 3])
            (reply.cut, reply.end) = (1, .reset)
            return reply
        }
        let path = try file("a", [1])
        let put = try await put("-X", "POST", path, origin.url("/a"))
        #expect(put.status == 1 && put.err.contains("find out whether the server has it"), "\(put)")
        let call = try ChildProcess("haul", ["call", "-d", "x", origin.url("/a")])
        #expect(try await call.wait() == 1 && call.standardError.contains("; --idempotent lets it be sent again"))
        #expect(!(put.err + call.standardError).contains("see idempotent"))
    }

    @Test("standard input and a pipe are sent with a length, and nothing of them is left") func input() async throws {
        let origin = try OriginServer { _ in OriginReply(201) }
        let haul = try #require(ChildProcess.path(of: "haul"))
        let bytes = FileBytes(seed: 9, count: 700_000)
        try Data(bytes.all).write(to: URL(filePath: directory.file("in")))
        mkfifo(directory.file("dump.sql"), 0o600)
        let scratch = TemporaryDirectory()
        let put = try ChildProcess(
            "sh",
            [
                "-c", "cat \"$2\" | \"$1\" put - \"$3\" && (cat \"$2\" >\"$4\" & \"$1\" put \"$4\" \"$5\"; wait)", "sh",
                haul,
                directory.file("in"), origin.url("/a"), directory.file("dump.sql"), origin.url("/in/"),
            ], environment: ["TMPDIR": scratch.path])
        #expect(try await put.wait() == 0, "\(put.standardError)")
        #expect(origin.requests.map(\.path) == ["/a", "/in/dump.sql"])
        #expect(origin.requests.allSatisfy { $0.body.bytes == bytes.all && $0.headers["content-length"] == "700000" })
        #expect(put.standardOutput.hasPrefix("-  "))
        #expect(scratch.names.isEmpty)
    }

    /// Sends a file through a pipe, and returns the peak memory of the command in MiB, too.
    private func pipe(
        _ bytes: FileBytes, pace: String = "cat", _ arguments: String..., scratch: TemporaryDirectory
    ) async throws -> (status: Int32, err: String, memory: Int) {
        try Data(bytes.all).write(to: URL(filePath: directory.file("in")))
        let haul = try #require(ChildProcess.path(of: "haul"))
        let process = try ChildProcess(
            "bash",
            [
                "-c",
                "f=$1; shift; \(pace) \"$f\" | { \"$@\" <&3 & p=$!; while m=$(grep VmHWM /proc/$p/status 2>/dev/null); do echo $m; sleep 0.05; done; wait $p; } 3<&0",
                "sh", directory.file("in"), haul, "put", "-",
            ] + arguments, environment: ["TMPDIR": scratch.path])
        let status = try await process.wait(within: .seconds(100))
        let peak = process.standardOutput.split(separator: "\n").compactMap { line -> Int? in
            let words = line.split(separator: " ")
            return words.first == "VmHWM:" ? words.dropFirst().first.flatMap { Int($0) } : nil
        }.max()
        return (status, process.standardError, (peak ?? 0) >> 10)
    }

    @Test("200 MB of a pipe are sent while they are read, in bounded memory and without a file")
    func stream() async throws {
        let (scratch, bytes) = (TemporaryDirectory(), FileBytes(seed: 3, count: 200_000_000))
        let origin = try OriginServer { _ in OriginReply(201) }
        let put = try await pipe(bytes, origin.url("/a"), scratch: scratch)
        #expect(put.status == 0, "\(put.err)")
        let request = try #require(origin.requests.last)
        #expect(origin.requests.count == 1 && request.headers["transfer-encoding"] == "chunked")
        #expect(request.headers["content-length"] == nil && request.body.count == bytes.count)
        #expect(request.body.bytes == Array(bytes.bytes(0..<Int64(request.body.bytes.count))))
        #expect(scratch.names.isEmpty && 1..<120 ~= put.memory, "\(put.memory) MiB")
    }

    @Test("a request that breaks off early is sent again from memory, and a later one fails with the reason")
    func brokenStream() async throws {
        let (scratch, bytes) = (TemporaryDirectory(), FileBytes(seed: 3, count: 60_000_000))
        let origin = try OriginServer(intake: { request in
            var intake = OriginIntake()
            if request.number == 1 { intake.cut = request.path == "/early" ? 3_000_000 : 40_000_000 }
            return intake
        }) { _ in OriginReply(201) }
        let early = try await pipe(bytes, origin.url("/early"), scratch: scratch)
        #expect(early.status == 0 && early.err.contains("again in"), "\(early.err)")
        #expect(origin.requests.last { $0.path == "/early" }?.body.count == bytes.count)
        let late = try await pipe(bytes, origin.url("/late"), scratch: scratch)
        #expect(late.status == 1 && late.err.contains("bytes of the pipe are gone"), "\(late.err)")
        #expect(!late.err.contains("again in") && origin.requests.count { $0.path == "/late" } == 1)
        #expect(scratch.names.isEmpty)
    }

    @Test("a server that requires the length gets it, because the pipe is stored in a file that has no name")
    func lengthRequired() async throws {
        let (scratch, bytes) = (TemporaryDirectory(), FileBytes(seed: 3, count: 20_000_000))
        for status in [411, 501] {
            let origin = try OriginServer(intake: { request in
                var intake = OriginIntake()
                if request.headers["content-length"] == nil { intake.refusal = OriginReply(status) }
                return intake
            }) { request in
                OriginReply(request.headers["content-length"] == nil ? status : 201)
            }
            let put = try await pipe(bytes, origin.url("/a"), scratch: scratch)
            #expect(put.status == 0 && put.err.contains("requires the length"), "\(put.err)")
            #expect(origin.requests.last?.body.bytes == bytes.all)
        }
        let origin = try OriginServer { _ in OriginReply(201) }
        let put = try await pipe(bytes, "--content-digest", "sha-256", origin.url("/a"), scratch: scratch)
        #expect(put.status == 0 && origin.requests.last?.headers["content-digest"] != nil, "\(put.err)")
        #expect(origin.requests.last?.body.bytes == bytes.all && scratch.names.isEmpty)
    }

    @Test("by tus a pipe has no length until its end, and continues after lost connections")
    func tusStream() async throws {
        let (scratch, bytes) = (TemporaryDirectory(), FileBytes(seed: 3, count: 30_000_000))
        for extensions in ["creation,creation-defer-length", "creation,creation-defer-length,checksum", "creation"] {
            let server = TusScript(extensions: extensions)
            let cuts = Shared(2)
            let origin = try OriginServer(intake: { request in
                var intake = OriginIntake()
                guard request.method == "PATCH" else { return intake }
                let isCut = cuts.change { left in
                    left -= 1
                    return left == 0 || left == -1
                }
                if isCut { intake.cut = 2_000_000 }
                return intake
            }) { server.answer($0) }
            let put = try await pipe(bytes, "--tus", origin.url("/files"), scratch: scratch)
            #expect(put.status == 0 && server.finished == [bytes.all], "\(extensions): \(put.err)")
            let created = origin.requests.first { $0.method == "POST" }
            let isDeferred = extensions.contains("defer")
            #expect(created?.headers["upload-defer-length"] == (isDeferred ? "1" : nil))
            #expect(created?.headers["upload-length"] == (isDeferred ? nil : "30000000"))
            #expect(scratch.names.isEmpty)
        }
    }

    @Test("a pipe whose beginning a tus server has forgotten fails, and the message says why")
    func forgottenStream() async throws {
        let (scratch, bytes) = (TemporaryDirectory(), FileBytes(seed: 3, count: 30_000_000))
        let server = TusScript(extensions: "creation,creation-defer-length")
        let patches = Shared(0)
        let origin = try OriginServer { request in
            let count = patches.change { count in
                if request.method == "PATCH" { count += 1 }
                return count
            }
            if count == 3 { server.forget() }
            return server.answer(request)
        }
        let put = try await pipe(bytes, "--tus", origin.url("/files"), scratch: scratch)
        #expect(put.status == 1 && put.err.contains("a pipe cannot be read again from its beginning"), "\(put.err)")
    }

    @Test("an unfinished tus upload is removed at the server when the command gives up, and when it is interrupted")
    func removed() async throws {
        for isInterrupted in [false, true] {
            var lies = TusScript.Lies()
            lies.patch = isInterrupted ? Array(repeating: 500, count: 100) : [400]
            let server = TusScript(lies: lies)
            let origin = try OriginServer { server.answer($0) }
            let haul = try #require(ChildProcess.path(of: "haul"))
            let put = try ChildProcess(haul, ["put", "--tus", try file("left", [1, 2, 3]), origin.url("/files")])
            if isInterrupted {
                try await eventually("a pause before a retry") { put.standardError.contains("again in") }
                put.kill(SIGINT)
            }
            #expect(try await put.wait() == (isInterrupted ? 130 : 1), "\(put.standardError)")
            #expect(server.terminated.count == 1 && server.uploads == 0, "\(put.standardError)")
        }
    }
}
