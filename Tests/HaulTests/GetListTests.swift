import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// Many files, from lists.
@Suite struct GetListTests {
    private static let bytes = FileBytes(seed: 93, count: 20_000)

    private func origin() throws -> OriginServer {
        try OriginServer { request in
            request.path.hasPrefix("/absent") ? OriginReply(404) : .file(Self.bytes, to: request)
        }
    }

    @Test("a command that is refused leaves no directory that it has made, and each one that was there")
    func refusedDirectories() async throws {
        let bench = GetBench()
        let url = "http://127.0.0.1:1/"
        bench.write("sums", String(repeating: "0", count: 64) + "  other\n")
        try #require(mkdir(bench.files.file("there"), 0o700) == 0)
        for arguments in [
            ["-d", "new/sub", "--checksum-file", "sums", url + "x"], ["-d", "new", url + "a/x", url + "b/x"],
            ["-d", "there/new", "--checksum-file", "sums", url + "x"],
            ["-o", "new/x", url + "x", "-o", "other/x", "ftp://h/x"],
        ] {
            let get = try bench.start(arguments)
            #expect(try await get.wait() == 2, "\(get.standardError)")
            #expect(bench.names == ["sums", "there"], "\(arguments)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: bench.files.file("there")).isEmpty)
        }
    }

    @Test("a list has URLs, mirrors, aria2's options and jobs") func list() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let list = """
            # a comment
            \(origin.url("/a"))

            \(origin.url("/absent"))\t\(origin.url("/b"))
              out=sub/named
              checksum=sha-256=\(Self.bytes.sha256)
              header=X-One: 1
              referer=http://r/
            {"url":"\(origin.url("/c"))","path":"deep/c","if_exists":"skip","headers":{"X-Two":"2"}}
            {"url":"\(origin.url("/d"))","method":"POST","body":"x=1"}
            """
        let get = try await bench.get("-i", "-", "--retries", "0", input: list)
        #expect(get.status == 0, "\(get)")
        for name in ["a", "sub/named", "deep/c"] { #expect(bench.files.holds(name, Self.bytes)) }
        #expect(get.out.split(separator: "\n").count == 4)
        #expect(origin.requests.first { $0.path == "/d" }?.method == "POST" && bench.names.contains("d"))
        #expect(get.out.contains("completed  sub/named") && get.out.contains("sha256 (given)"))
        let second = try #require(origin.requests.first { $0.path == "/b" })
        #expect(second.headers["x-one"] == "1" && second.headers["referer"] == "http://r/")
        #expect(origin.requests.first { $0.path == "/c" }?.headers["x-two"] == "2")
    }

    @Test("-o names the one file of a list with mirrors, and is refused for several files")
    func output() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let line = "\(origin.url("/absent"))\t\(origin.url("/b"))\n  out=other\n"
        let one = try await bench.get("-i", "-", "-o", "x.bin", "--retries", "0", input: line)
        #expect(one.status == 0 && bench.files.holds("x.bin", Self.bytes), "\(one)")
        let printed = try await bench.get("-i", "-", "-o", "-", "--retries", "0", input: line)
        #expect(printed.status == 0 && Array(printed.out.utf8).count >= 20_000, "\(printed.err)")
        mkfifo(bench.files.file("pipe"), 0o600)
        let reader = try ChildProcess("cat", [bench.files.file("pipe")])
        let piped = try await bench.get(
            "-i", "-", "-o", "pipe", "--retries", "0", input: line + origin.url("/c") + "\n")
        #expect(piped.status == 0 && piped.out.isEmpty, "\(piped)")
        #expect(try await reader.wait() == 0 && reader.standardOutput.utf8.count >= 40_000)
        unlink(bench.files.file("pipe"))
        let two = try await bench.get("-i", "-", "-o", "y.bin", input: line + origin.url("/c") + "\n")
        #expect(two.status == 2 && two.err.contains("one file") && two.err.contains("2 are given"), "\(two)")
        #expect(bench.names == ["x.bin"])
    }

    @Test(
        "an invalid line is reported by its number, and nothing is downloaded",
        arguments: [
            ("http://h/a\n  sponge=1\n", "line 2: \"sponge\" is not an option"),
            ("  out=x\n", "line 1: an indented line"),
            ("http://h/a\nftp://h/b\n", "line 2: url"),
            ("{\"url\":\"http://h/\",\"siez\":1}", "line 1: unknown fields: siez"),
            ("{\"url\":", "line 1: "), ("http://h/a\n out=../x\n", "line 1: path"),
            ("{\"url\":\"http://h/\",\"if_exists\":\"perhaps\"}", "if_exists must be"),
            ("http://h/a\n header=Cookie: a\n header=cookie: b\n user-agent=x\n", "line 3: cookie is given twice"),
            ("http://h/a\n user-agent=x\n header=User-Agent: y\n", "line 3: User-Agent is given twice"),
            ("http://h/a\n conditional-get=true\n auto-file-renaming=true\n", "line 1: -N (conditional-get)"),
            ("{\"url\":\"http://h/a\",\"if_exists\":\"skip\"}\n conditional-get=true\n", "if-exists skip does not"),
            ("{\"url\":5}", "line 1: url must be a text"), ("{\"urls\":[\"http://h/\",5]}", "urls must be a list"),
        ])
    func wrong(_ list: String, _ words: String) async throws {
        let bench = GetBench()
        let get = try await bench.get("-i", "-", input: list)
        #expect(get.status == 2 && get.err.contains(words), "\(get)")
        #expect(bench.names.isEmpty)
    }

    @Test("a file of checksums verifies files by their names, and must contain all of them")
    func checksums() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let other = FileBytes(seed: 1, count: 10).sha256
        bench.write("SUMS", "\(Self.bytes.sha256)  a\nSHA256 (b) = \(Self.bytes.sha256)\n\(other) *./c\n")
        let get = try await bench.get(
            origin.url("/a"), origin.url("/b"), "--checksum-file", bench.files.file("SUMS"), "-d", "new")
        #expect(
            get.status == 0 && bench.files.holds("new/a", Self.bytes) && bench.files.holds("new/b", Self.bytes),
            "\(get)")
        let wrong = try await bench.get(origin.url("/c"), "--checksum-file", bench.files.file("SUMS"))
        #expect(
            wrong.status == 1 && wrong.err.contains("checksum_mismatch") && bench.names == ["SUMS", "new"], "\(wrong)")
        let unknown = try await bench.get(origin.url("/d"), "--checksum-file", bench.files.file("SUMS"))
        #expect(unknown.status == 2 && unknown.err.contains("d is not in"), "\(unknown)")
        bench.write("SUMS", "\(Self.bytes.sha256)  a\n\(Self.bytes.sha256)  a\n\(other)  ./a\n")
        let doubtful = try await bench.get(origin.url("/a"), "--checksum-file", bench.files.file("SUMS"))
        #expect(doubtful.status == 2 && doubtful.err.contains("two different checksums for a"), "\(doubtful)")
    }

    @Test("a Metalink file's files are downloaded, from a mirror that has them") func metalink() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <metalink xmlns="urn:ietf:params:xml:ns:metalink"><generator>x</generator>
             <file name="dir/one.bin"><size>20000</size><hash type="sha-1">00</hash>
              <hash type="sha-256">\(Self.bytes.sha256)</hash>
              <pieces length="1" type="sha-256"><hash>ff</hash></pieces>
              <url priority="2">\(origin.url("/one"))</url><url priority="1">\(origin.url("/absent"))</url>
              <url>ftp://h/one</url><metaurl mediatype="torrent">http://h/t</metaurl></file>
             <file name="two"><url>\(origin.url("/two"))</url></file>
            </metalink>
            """
        bench.write("all.meta4", text)
        let get = try await bench.get("all.meta4")
        #expect(get.status == 0, "\(get)")
        #expect(bench.files.holds("dir/one.bin", Self.bytes) && bench.files.holds("two", Self.bytes))
        #expect(get.out.contains("dir/one.bin  20.0 kB") && get.out.contains("sha256 (given)"))
        #expect(origin.requests.contains { $0.path == "/absent" })
        for (broken, words) in [
            ("<metalink", "line 1"), ("<html/>", "names no file"), (text.replacing("dir/one", with: "../one"), "path"),
        ] {
            bench.write("broken.meta4", broken)
            let refused = try await bench.get("-M", "broken.meta4")
            #expect(refused.status == 2 && refused.err.contains(words), "\(refused)")
        }
    }

    @Test("lists of URLs, lists of checksums and Metalink files may be URLs, with the same options")
    func remote() async throws {
        let (bench, shared) = (GetBench(), Shared<[String: String]>([:]))
        let origin = try OriginServer { request in
            guard request.headers["authorization"] != nil else { return OriginReply(401) }
            if request.path == "/moved" { return OriginReply(302, headers: [("Location", "/sums")]) }
            let path = String(request.path.prefix { $0 != "?" })
            guard let text = shared.value[path] else { return .file(Self.bytes, to: request) }
            return OriginReply(body: Array(text.utf8))
        }
        shared.value = [
            "/sums": "\(Self.bytes.sha256)  a\n\(Self.bytes.sha256)  c\n", "/list": origin.url("/a") + "\n",
            "/all.meta4": """
            <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="c"><size>20000</size>
             <hash type="sha-256">\(Self.bytes.sha256)</hash><url>\(origin.url("/b"))</url></file></metalink>
            """,
        ]
        let get = try await bench.get(
            "-u", "me:secret", "-i", origin.url("/list"), "--checksum-file", origin.url("/moved"), "-M",
            origin.url("/all.meta4"), environment: ["TMPDIR": bench.home.path])
        #expect(get.status == 0 && get.err.isEmpty, "\(get)")
        #expect(bench.names == ["a", "c"] && bench.files.holds("a", Self.bytes) && bench.files.holds("c", Self.bytes))
        #expect(get.out.split(separator: "\n").allSatisfy { $0.contains("sha256 (given)") })
        #expect(try FileManager.default.contentsOfDirectory(atPath: bench.home.path) == ["haul"])
        let refused = try await bench.get(origin.url("/a"), "--checksum-file", origin.url("/sums?key=secret"))
        #expect(
            refused.status == 1 && refused.err.contains("http_401") && !refused.err.contains("secret"), "\(refused)")
        let none = try await bench.get("-u", "me:secret", origin.url("/a"), "--checksum-file", origin.url("/list?k=v"))
        #expect(none.status == 2 && none.err.contains("/list?k=v has no line like"), "\(none)")
    }

    @Test("a repeated URL is one download, and one failure among many files is reported") func twice() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let get = try await bench.get(
            origin.url("/a"), origin.url("/a"), origin.url("/absent?id=1&key=secret"), "-j2")
        #expect(get.status == 1 && origin.requests.count { $0.path == "/a" } == 1)
        let failures = get.err.split(separator: "\n")
        #expect(get.out.split(separator: "\n").count == 1)
        #expect(
            failures.contains { $0.hasPrefix("failed  http_404: ") && $0.hasSuffix("/absent?id=1&key=[masked]") })
        #expect(!(get.out + get.err).contains("\u{1B}") && !(get.out + get.err).contains("secret"))
    }

    @Test("a line's url and urls are the URLs of one file, which another line may name as well") func bothMembers()
        async throws
    {
        let (bench, origin) = (GetBench(), try origin())
        let list = """
            {"url":"\(origin.url("/without-tls").dropFirst(7))","urls":["\(origin.url("/b"))"],"path":"both"}
            {"urls":["\(origin.url("/c"))"]}
            \(origin.url("/c"))
            """
        let get = try await bench.get("-i", "-", "--retries", "0", input: list)
        #expect(get.status == 0 && bench.names == ["both", "c"], "\(get)")
        #expect(bench.files.holds("both", Self.bytes) && origin.requests.count { $0.path == "/c" } == 1)
    }
}
