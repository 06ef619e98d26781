import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// Several URLs whose files have one name: each file is of its own URL, or the command reports an error.
@Suite struct GetNameTests {
    private static let date = "Sun, 06 Nov 1994 08:49:37 GMT"

    /// The file of a path and query. All files have the same size and date, and an ETag of their own.
    private static func bytes(_ target: String) -> FileBytes {
        FileBytes(seed: target.utf8.reduce(1) { $0 &* 31 &+ UInt64($1) }, count: 5000)
    }

    private func origin() throws -> OriginServer {
        try OriginServer { request in
            var headers = [("Last-Modified", Self.date)]
            if request.path.hasPrefix("/named") { headers.append(("Content-Disposition", "attachment; filename=q")) }
            if request.headers["if-modified-since"] != nil, request.headers["if-none-match"] == nil {
                return OriginReply(304, headers: headers)
            }
            return .file(
                Self.bytes(request.path), etag: "\"\(Self.bytes(request.path).sha256.prefix(9))\"", headers: headers,
                to: request)
        }
    }

    @Test(
        "the file of one URL is never accepted as the file of another one",
        arguments: [
            [[]], [["-R"]], [["-N"]], [["-N", "-R"]], [["-o", "q"]], [["-o", "q", "-R"]], [["-o", "q", "-N"]],
            [["--if-exists", "fail"]], [[], ["-o", "q"]], [["-o", "q"], []],
        ] as [[[String]]])
    func otherURL(_ options: [[String]]) async throws {
        let (bench, origin) = (GetBench(), try origin())
        let (first, other) = (options[0], options.last!)
        let done = try bench.start(first + [origin.url("/q?x=1")])
        #expect(try await done.wait() == 0)
        // The second time the log knows of the refusal, too.
        for _ in 0..<2 {
            let get = try bench.start(other + [origin.url("/q?x=2")])
            #expect(try await get.wait() == 1, "\(get.standardOutput)")
            #expect(get.standardError.contains("file_exists") && get.standardError.contains("/q?x=1"))
            #expect(get.standardError.contains("--if-exists"))
            #expect(bench.files.holds("q", Self.bytes("/q?x=1")) && bench.names == ["q"])
        }
        let again = try bench.start(first + [origin.url("/q?x=1")])
        #expect(try await again.wait() == 0 && again.standardOutput.contains("unchanged  q"), "\(again.standardOutput)")
        #expect(again.standardOutput.contains("same ETag"))
    }

    @Test("a file of another host, and one whose name only looks the same, is another URL's file")
    func otherHost() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let elsewhere = try self.origin()
        #expect(try await bench.get(origin.url("/f%00x")).status == 0)
        for url in [elsewhere.url("/fx"), origin.url("/f%0Ax"), origin.url("/d/fx")] {
            let get = try await bench.get(url)
            #expect(get.status == 1 && get.err.contains("is the file of \(origin.url("/f%00x"))"), "\(get)")
        }
        #expect(bench.files.holds("fx", Self.bytes("/f%00x")) && bench.names == ["fx"])
        // A checksum proves the bytes, wherever they came from.
        let right = try await bench.get(elsewhere.url("/fx"), "--checksum", "sha256:" + Self.bytes("/f%00x").sha256)
        #expect(right.status == 0 && right.out.contains("sha256 (given)"), "\(right)")
    }

    @Test("--if-exists overwrite and rename give another URL its file, and then each URL knows its own")
    func ways() async throws {
        let (bench, origin) = (GetBench(), try origin())
        #expect(try await bench.get("-R", origin.url("/q?x=1")).status == 0)
        #expect(try await bench.get("-R", "--if-exists", "rename", origin.url("/q?x=2")).status == 0)
        #expect(bench.files.holds("q", Self.bytes("/q?x=1")) && bench.files.holds("q (1)", Self.bytes("/q?x=2")))
        #expect(try await bench.get("-R", "--if-exists", "overwrite", origin.url("/q?x=3")).status == 0)
        #expect(bench.files.holds("q", Self.bytes("/q?x=3")))
        // `q` has the size and date of x=1, and perhaps its inode, too.
        for number in [1, 4] {
            let get = try await bench.get("-R", origin.url("/q?x=\(number)"))
            #expect(get.status == 1 && get.err.contains("/q?x=3"), "\(get)")
        }
        for (number, name) in [(2, "q (1)"), (3, "q")] {
            let get = try await bench.get("-R", origin.url("/q?x=\(number)"))
            #expect(get.status == 0 && get.out.hasPrefix("unchanged  \(name)  "), "\(get)")
        }
        #expect(bench.names == ["q", "q (1)"])
    }

    @Test("--if-exists overwrite replaces the named file, even after an earlier rename") func overwrite() async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("small.txt", "x")
        #expect(try await bench.get("--if-exists", "rename", origin.url("/small.txt")).status == 0)
        #expect(bench.names == ["small (1).txt", "small.txt"])
        let get = try await bench.get("--if-exists", "overwrite", origin.url("/small.txt"))
        #expect(get.status == 0 && get.out.contains("completed  small.txt"), "\(get)")
        #expect(bench.files.holds("small.txt", Self.bytes("/small.txt")))
        #expect(try await bench.get(origin.url("/small.txt")).out.hasPrefix("unchanged  small.txt"))
    }

    @Test("downloads of one command with one name are refused before anything is fetched") func collision() async throws
    {
        let (bench, origin) = (GetBench(), try origin())
        let list = "\(origin.url("/q?x=1"))\n\(origin.url("/a"))\n\(origin.url("/q?x=2"))\n"
        let get = try await bench.get("-i", "-", input: list)
        #expect(get.status == 2 && get.err.contains("line 1") && get.err.contains("line 3"), "\(get)")
        let named = try await bench.get(
            "-i", "-", input: "\(origin.url("/a"))\n out=x\n\(origin.url("/b"))\n out=x\n")
        #expect(named.status == 2 && named.err.contains("line 1") && named.err.contains("line 3"), "\(named)")
        let given = try await bench.get(origin.url("/q?x=1"), origin.url("/q?x=2"), "--if-exists", "overwrite")
        #expect(given.status == 2 && given.err.contains("/q?x=1") && given.err.contains("/q?x=2"), "\(given)")
        #expect(origin.requests.isEmpty && bench.names.isEmpty)
    }

    @Test("with rename, downloads of one name are numbered in the order of the list, and each says its URL")
    func numbered() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let list =
            (1...5).map { origin.url("/q?x=\($0)") + "\n" }.joined()
            + "\(origin.url("/a"))\n out=named\n\(origin.url("/b"))\n out=named\n"
        for turn in 0..<2 {
            let get = try await bench.get("-i", "-", "--if-exists", "rename", input: list)
            #expect(get.status == 0, "\(get)")
            for number in 1...5 {
                let name = number == 1 ? "q" : "q (\(number - 1))"
                #expect(bench.files.holds(name, Self.bytes("/q?x=\(number)")), "\(number)")
                let line = get.out.split(separator: "\n").first { $0.contains("ed  \(name)  ") }
                #expect(line?.hasPrefix(turn == 0 ? "completed" : "unchanged") == true, "\(get)")
                #expect(line?.hasSuffix(origin.url("/q?x=\(number)")) == true, "\(get)")
            }
            #expect(bench.files.holds("named", Self.bytes("/a")) && bench.files.holds("named (1)", Self.bytes("/b")))
            #expect(bench.names.count == 7, "\(bench.names)")
        }
        let json = try await bench.get("-i", "-", "--if-exists", "rename", "--json", input: list)
        let urls = try GetBench.events(json.out).filter { $0["event"]?.string == "completed" }.map { $0["url"]?.string }
        #expect(Set(urls) == Set((1...5).map { origin.url("/q?x=\($0)") } + [origin.url("/a"), origin.url("/b")]))
    }

    @Test("a name that two servers' responses give at once is the first one's, and nothing hidden stays")
    func namedByServer() async throws {
        let bench = GetBench()
        let gate = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(
                FileBytes(seed: request.path == "/a" ? 1 : 2, count: 900_000),
                headers: [("Content-Disposition", "attachment; filename=same")], to: request)
            reply.hold = (300_000, gate)
            return reply
        }
        let get = try bench.start([origin.url("/a"), origin.url("/b"), "-x1"])
        try await eventually("one to be refused") { get.standardError.contains("file_exists") }
        gate.open()
        #expect(try await get.wait() == 1)
        #expect(get.standardError.contains("of this command"), "\(get.standardError)")
        #expect(bench.names == ["same"])
    }
}
