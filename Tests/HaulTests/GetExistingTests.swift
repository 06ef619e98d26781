import Glibc
import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

/// Files that exist before the download.
@Suite struct GetExistingTests {
    private static let bytes = FileBytes(seed: 92, count: 100_000)
    private static let date = "Sun, 06 Nov 1994 08:49:37 GMT"

    private func origin() throws -> OriginServer {
        try OriginServer { request in
            if request.headers["if-modified-since"] != nil, request.headers["if-none-match"] == nil {
                return OriginReply(304)
            }
            return .file(Self.bytes, headers: [("Last-Modified", Self.date)], to: request)
        }
    }

    @Test("a file that has the server's size and is not older stays, and no name gets a number")
    func same() async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("x.bin", Self.bytes.all)
        let get = try await bench.get(origin.url("/x.bin"))
        #expect(get.status == 0 && get.out.contains("unchanged  x.bin") && get.out.contains("size and date"), "\(get)")
        #expect(bench.names == ["x.bin"])
    }

    @Test("a file with a time in the far future is a file like any other") func farFuture() async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("x.bin", Self.bytes.all)
        // The year 2300. Not every file system has such times.
        let time = timespec(tv_sec: 10_413_792_000, tv_nsec: 0)
        utimensat(AT_FDCWD, bench.files.file("x.bin"), [time, time], 0)
        let get = try await bench.get(origin.url("/x.bin"))
        #expect(get.status == 0 && get.out.contains("unchanged  x.bin"), "\(get)")
    }

    @Test(
        "a downloaded file with the right checksum stays, whatever its server has now",
        arguments: [200, 404])
    func proven(_ status: Int) async throws {
        let bench = GetBench()
        let isNew = Shared(false)
        let other = FileBytes(seed: 93, count: 100_000)
        let origin = try OriginServer { request in
            guard isNew.value else { return .file(Self.bytes, to: request) }
            return status == 200 ? .file(other, etag: "\"v2\"", to: request) : OriginReply(status)
        }
        let checksum = "sha256:" + Self.bytes.sha256
        #expect(try await bench.get("--checksum", checksum, origin.url("/x.bin")).status == 0)
        isNew.change { $0 = true }
        let get = try await bench.get("--checksum", checksum, origin.url("/x.bin"))
        #expect(get.status == 0 && get.out.contains("unchanged  x.bin"), "\(get)")
        #expect(bench.files.holds("x.bin", Self.bytes))
    }

    @Test("a download that is skipped because of another file of its name leaves nothing")
    func skippedLate() async throws {
        let bench = GetBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.path == "/b/x.bin" { reply.hold = (50_000, latch) }
            return reply
        }
        let task = Task { try await bench.get("--if-exists", "skip", origin.url("/b/x.bin")) }
        try await eventually("the first to begin") { bench.names.contains { $0.hasPrefix(".haul-") } }
        bench.write("x.bin", "another's")
        latch.open()
        let get = try await task.value
        #expect(get.status == 0 && get.out.contains("skipped"), "\(get)")
        #expect(bench.names == ["x.bin"])
    }

    @Test("another file stays, and the error says what is different") func other() async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("x.bin", "other")
        let get = try await bench.get(origin.url("/x.bin"))
        #expect(
            get.status == 1 && get.err.contains("5 B of") && get.err.contains("the server's has 100.0 kB"), "\(get)")
        for (count, words) in [(99_999, "the server's has 1 B more"), (100_003, "the server's has 3 B less")] {
            bench.write("x.bin", [UInt8](repeating: 7, count: count))
            let near = try await bench.get(origin.url("/x.bin"))
            #expect(near.status == 1 && near.err.contains(words), "\(near)")
        }
        var old = timespec(tv_sec: 0, tv_nsec: 0)
        bench.write("x.bin", Self.bytes.all)
        utimensat(AT_FDCWD, bench.files.file("x.bin"), [old, old], 0)
        old.tv_sec = 1
        let newer = try await bench.get(origin.url("/x.bin"))
        #expect(newer.status == 1 && newer.err.contains("the server's is newer"), "\(newer)")
        #expect(bench.names == ["x.bin"])
    }

    @Test(
        "--if-exists decides about an existing file",
        arguments: [("overwrite", 0, ["x"]), ("rename", 0, ["x", "x (1)"]), ("fail", 1, ["x"]), ("skip", 0, ["x"])])
    func policies(_ policy: String, _ status: Int, _ names: [String]) async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("x", "other")
        let get = try await bench.get(origin.url("/x"), "--if-exists", policy)
        #expect(get.status == Int32(status) && bench.names == names, "\(get)")
        #expect(bench.files.contents("x") == (policy == "overwrite" ? Self.bytes.all : Array("other".utf8)))
        if policy == "rename" { #expect(bench.files.holds("x (1)", Self.bytes)) }
        if policy == "skip" { #expect(get.out == "skipped  x\n") }
    }

    @Test(
        "a file that replaces another keeps its permissions, but no bit that lets others act as its owner",
        arguments: [["--if-exists", "overwrite"], ["-N"], []], [0o600, 0o444, 0o777, 0o4755])
    func permissions(_ options: [String], _ mode: Int) async throws {
        let bench = GetBench()
        let version = Shared(0)
        let bytes = [Self.bytes, FileBytes(seed: 94, count: 100_000)]
        let origin = try OriginServer { request in
            .file(bytes[version.value], etag: "\"v\(version.value)\"", headers: [Self.later], to: request)
        }
        // Without an option, only the command's own file is replaced.
        if options.isEmpty {
            #expect(try await bench.get(origin.url("/x")).status == 0)
            version.change { $0 = 1 }
        } else {
            bench.write("x", "other")
        }
        #expect(chmod(bench.files.file("x"), mode_t(mode)) == 0)
        let get = try bench.start(options + [origin.url("/x")])
        #expect(try await get.wait() == 0 && bench.files.holds("x", bytes[version.value]), "\(get.standardError)")
        var status = stat()
        #expect(stat(bench.files.file("x"), &status) == 0 && status.st_mode & 0o7777 == mode_t(mode) & 0o777)
    }

    @Test("a file with the right checksum is not requested, and a file with a wrong one is an error")
    func checksum() async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("x", Self.bytes.all)
        let right = "sha256:" + Self.bytes.sha256
        let get = try await bench.get(origin.url("/x"), "--checksum", right)
        #expect(get.status == 0 && get.out.contains("sha256 (given)") && origin.requests.isEmpty, "\(get)")
        var wrong = Self.bytes.all
        wrong[500] ^= 1
        bench.write("x", wrong)
        let refused = try await bench.get(origin.url("/x"), "--checksum", right)
        #expect(refused.status == 1 && refused.err.contains("another sha256"), "\(refused)")
        #expect(try await bench.get(origin.url("/x"), "--checksum", right, "--if-exists", "overwrite").status == 0)
        #expect(bench.files.holds("x", Self.bytes))
    }

    @Test(
        "no option that keeps an existing file ends with status 0 if the file lacks the given checksum",
        arguments: [["-N"], ["--if-exists", "skip"], []], [true, false])
    func keptUnverified(_ options: [String], _ isNamed: Bool) async throws {
        // Servers that know If-Modified-Since, that ignore it, and that send neither date nor size.
        let plain = try OriginServer { request in
            .file(Self.bytes, headers: [("Last-Modified", Self.date)], to: request)
        }
        let silent = try OriginServer { _ in
            var reply = OriginReply(body: Self.bytes.all)
            reply.framing = .chunked
            return reply
        }
        var wrong = Self.bytes.all
        wrong[500] ^= 1
        for (number, origin) in [try origin(), plain, silent].enumerated() {
            for file in [wrong, Array("short".utf8), Self.bytes.all] {
                let bench = GetBench()
                bench.write("x", file)
                // Without a name of its own, the file gets the one that the server gives.
                let name = isNamed ? ["-o", "x", origin.url("/y")] : [origin.url("/x")]
                let process = try bench.start(options + ["--checksum", "sha256:\(Self.bytes.sha256)"] + name)
                let status = try await process.wait()
                let (out, err) = (process.standardOutput, process.standardError)
                let what = "server \(number), \(file.count) bytes: \(out)\(err)"
                let isRight = bench.files.holds("x", Self.bytes)
                #expect(status == (isRight ? 0 : 1), "\(what)")
                if file == Self.bytes.all {
                    #expect(out.hasPrefix("unchanged") && out.contains("(given)"), "\(what)")
                } else if !isRight {
                    #expect(bench.files.contents("x") == file, "\(what)")
                    #expect(err.contains("--if-exists overwrite"), "\(what)")
                }
                #expect(bench.names == ["x"], "\(what)")
            }
        }
    }

    @Test("-N sends the existing file's time, and takes only a newer file") func newer() async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("x", "mine")
        let get = try await bench.get("-N", origin.url("/x"))
        #expect(get.status == 0 && get.out.contains("not newer there"), "\(get)")
        #expect(bench.files.contents("x") == Array("mine".utf8))
        let fresh = try OriginServer {
            .file(Self.bytes, headers: [("Last-Modified", "Sun, 06 Nov 2094 08:49:37 GMT")], to: $0)
        }
        #expect(try await bench.get("-N", fresh.url("/x")).status == 0)
        #expect(bench.files.holds("x", Self.bytes) && bench.names == ["x"])
    }

    /// A server whose file is of 2020, and which may ignore dates.
    private func old(_ body: FileBytes, readsDates: Bool) throws -> OriginServer {
        let modified = ("Last-Modified", "Sun, 05 Jan 2020 08:49:37 GMT")
        return try OriginServer { request in
            readsDates && request.headers["if-modified-since"] != nil
                ? OriginReply(304, headers: [modified]) : .file(body, headers: [modified], to: request)
        }
    }

    @Test(
        "-N keeps a file that was edited after haul get had downloaded it, and one of another length",
        arguments: [true, false], [true, false])
    func edited(_ isDownloaded: Bool, _ readsDates: Bool) async throws {
        let (bench, origin) = (GetBench(), try old(FileBytes(seed: 1, count: 5000), readsDates: readsDates))
        if isDownloaded { #expect(try await bench.get("-N", origin.url("/x")).out.hasPrefix("completed")) }
        bench.write("x", "my edit")
        let get = try await bench.get("-N", origin.url("/x"))
        #expect(get.status == 0 && get.out.contains("not newer there"), "\(get)")
        #expect(bench.files.contents("x") == Array("my edit".utf8) && bench.names == ["x"])
    }

    @Test("-N keeps a file for which the server has nothing newer, although files may be replaced")
    func notNewer() async throws {
        let (bench, origin) = (GetBench(), try old(FileBytes(seed: 1, count: 5000), readsDates: true))
        bench.write("x", "mine")
        let get = try await bench.get("-N", "--if-exists", "overwrite", origin.url("/x"))
        #expect(get.status == 0 && get.out.contains("not newer there"), "\(get)")
        #expect(bench.files.contents("x") == Array("mine".utf8) && bench.names == ["x"])
    }

    @Test(
        "-N replaces no file that was made or edited while an older one was being downloaded", arguments: [true, false])
    func editedMeanwhile(_ isContinued: Bool) async throws {
        let (bench, gate, held) = (GetBench(), Latch(), Shared(true))
        let origin = try OriginServer { request in
            var reply = OriginReply.file(
                FileBytes(seed: 3, count: 900_000), etag: "\"v\"",
                headers: [("Last-Modified", "Sun, 05 Jan 2020 08:49:37 GMT")], to: request)
            if held.value { reply.hold = (300_000, gate) }
            return reply
        }
        let get = try bench.start(["-N", "-x1", origin.url("/x")])
        try await eventually("some bytes") {
            bench.names.first { $0.hasPrefix(".haul-") }.flatMap { bench.files.contents($0)?.count } ?? 0 > 100_000
        }
        if isContinued {
            get.kill(SIGTERM)
            _ = try await get.wait()
        }
        bench.write("x", "mine")
        held.value = false
        gate.open()
        let status = isContinued ? try await bench.get("-N", origin.url("/x")).status : try await get.wait()
        #expect(status == 1)
        #expect(bench.files.contents("x") == Array("mine".utf8))
    }

    /// A server that knows only dates, and responds as one whose file changes twice within a second.
    private func dated(_ modified: Int64, _ body: Shared<String>) throws -> OriginServer {
        try OriginServer { request in
            let headers = [
                ("Date", HTTPDate.text(UnixTime.seconds)), ("Last-Modified", HTTPDate.text(modified)),
            ]
            let since = request.headers["if-modified-since"].flatMap(HTTPDate.parse)
            if let since, since >= modified { return OriginReply(304, headers: headers) }
            return OriginReply(headers: headers, body: Array(body.value.utf8))
        }
    }

    @Test(
        "a downloaded file is fetched again if its date was weak, and the server would still say 304",
        arguments: [[], ["-N"], ["-R"], ["-N", "-R"]])
    func weak(_ options: [String]) async throws {
        let (bench, body) = (GetBench(), Shared("one"))
        let origin = try dated(UnixTime.seconds, body)
        for text in ["one", "two"] {
            body.value = text
            let get = try bench.start(options + [origin.url("/x")])
            #expect(try await get.wait() == 0 && get.standardOutput.hasPrefix("completed"), "\(get.standardOutput)")
            #expect(bench.files.contents("x") == Array(text.utf8))
        }
    }

    @Test("-N replaces a file of the same second whose length differs, and keeps one of the same length")
    func sameSecond() async throws {
        let now = UnixTime.seconds
        let origin = try dated(now, Shared("three"))
        for (there, after, what) in [("one", "three", "completed"), ("seven", "seven", "unchanged")] {
            let bench = GetBench()
            bench.write("x", there)
            // Another program has left it, with the server's date.
            let times = [timespec](repeating: timespec(tv_sec: Int(now), tv_nsec: 0), count: 2)
            #expect(utimensat(AT_FDCWD, bench.files.file("x"), times, 0) == 0)
            let get = try await bench.get("-N", origin.url("/x"))
            #expect(get.status == 0 && get.out.hasPrefix(what), "\(get)")
            #expect(bench.files.contents("x") == Array(after.utf8))
        }
    }

    @Test("a downloaded file is revalidated, and replaced if the server has another version") func own() async throws {
        let bench = GetBench()
        let version = Shared("\"v1\"")
        let origin = try OriginServer { request in
            .file(FileBytes(seed: version.value == "\"v1\"" ? 1 : 2, count: 5000), etag: version.value, to: request)
        }
        #expect(try await bench.get(origin.url("/x")).out.hasPrefix("completed"))
        let again = try await bench.get(origin.url("/x"))
        #expect(again.out.hasPrefix("unchanged  x") && again.out.contains("same ETag"), "\(again)")
        version.value = "\"v2\""
        #expect(try await bench.get(origin.url("/x")).out.hasPrefix("completed  x"))
        #expect(bench.files.holds("x", FileBytes(seed: 2, count: 5000)) && bench.names == ["x"])
        bench.write("x", "touched")
        #expect(try await bench.get(origin.url("/x")).status == 1)
        #expect(bench.files.contents("x") == Array("touched".utf8))
    }

    private static let later = ("Last-Modified", "Sun, 06 Nov 2094 08:49:37 GMT")

    @Test("-N replaces no file that only the server's response has named, and one that it has made")
    func namedByServer() async throws {
        let (bench, version) = (GetBench(), Shared(1))
        let origin = try OriginServer { request in
            .file(
                FileBytes(seed: UInt64(version.value), count: 2000), etag: "\"v\(version.value)\"",
                headers: [("Content-Disposition", "attachment; filename=notes.txt"), Self.later], to: request)
        }
        bench.write("notes.txt", "mine")
        let get = try await bench.get("-N", origin.url("/data"))
        #expect(get.status == 1 && get.err.contains("-o notes.txt"), "\(get)")
        #expect(bench.files.contents("notes.txt") == Array("mine".utf8) && bench.names == ["notes.txt"])
        // The user has named it.
        #expect(try await bench.get("-N", "-o", "notes.txt", origin.url("/data")).status == 0)
        #expect(bench.files.holds("notes.txt", FileBytes(seed: 1, count: 2000)))
        let other = GetBench()
        for seed in [1, 2] {
            version.value = seed
            let get = try await other.get("-N", origin.url("/data"))
            #expect(get.status == 0 && get.out.hasPrefix("completed  notes.txt"), "\(get)")
            #expect(other.files.holds("notes.txt", FileBytes(seed: UInt64(seed), count: 2000)))
        }
    }

    @Test("-N does not replace a file that was made during a download which the server has named")
    func madeMeanwhile() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try OriginServer { request in
            var reply = OriginReply.file(
                FileBytes(seed: 3, count: 900_000),
                headers: [("Content-Disposition", "attachment; filename=notes.txt"), Self.later], to: request)
            reply.hold = (300_000, gate)
            return reply
        }
        let get = try bench.start(["-N", "-x1", origin.url("/data")])
        try await eventually("the partial file") { bench.names.contains { $0.hasPrefix(".haul-") } }
        bench.write("notes.txt", "mine")
        gate.open()
        #expect(try await get.wait() == 1 && get.standardError.contains("notes.txt"), "\(get.standardError)")
        #expect(bench.files.contents("notes.txt") == Array("mine".utf8))
    }

    @Test(
        "a Metalink that a server has sent for another URL replaces no file, and one that the user asked for does",
        arguments: [["-N"], ["--if-exists", "overwrite"]])
    func followedMetalink(_ options: [String]) async throws {
        let origin = try OriginServer { request in
            guard request.path == "/list" else { return .file(Self.bytes, headers: [Self.later], to: request) }
            let text = """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="notes.txt">
                <url>http://\(request.headers["host"] ?? "")/f</url></file></metalink>
                """
            return OriginReply(headers: [("Content-Type", "application/metalink4+xml")], body: Array(text.utf8))
        }
        let bench = GetBench()
        bench.write("notes.txt", "mine")
        let get = try bench.start(options + [origin.url("/list")])
        #expect(try await get.wait() == 1 && get.standardError.contains("-M"), "\(get.standardError)")
        #expect(bench.files.contents("notes.txt") == Array("mine".utf8) && bench.names == ["notes.txt"])
        let asked = try bench.start(options + ["-M", origin.url("/list")], environment: ["TMPDIR": bench.home.path])
        #expect(try await asked.wait() == 0 && bench.files.holds("notes.txt", Self.bytes), "\(asked.standardError)")
    }
}
