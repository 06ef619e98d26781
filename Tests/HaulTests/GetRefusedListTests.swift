import Foundation
import Glibc
import HaulTestSupport
import Testing

/// What a list may not say: more than its author may decide, or what `haul get` does not do.
@Suite struct GetRefusedListTests {
    private static let bytes = FileBytes(seed: 97, count: 2000)

    @Test(
        "a list from a server names files beneath the directory, and decides nothing else",
        arguments: [
            ("%U\n dir=/tmp/elsewhere\n", "dir=/tmp/elsewhere"), ("%U\n dir=../..\n", "dir=../.."),
            ("%U\n dir=s3://b/x\n", "dir=s3://b/x"), ("%U\n out=.bashrc\n", "out=.bashrc"),
            ("%U\n out=x\u{0D4E}/.profile\n", "begins with a dot"),
            ("%U\n out=.\u{0301}x\n", "begins with a dot"),
            ("%U\n out=/tmp/elsewhere\n", "out=/tmp/elsewhere"), ("%U\n dir=.config\n out=x\n", "dir=.config"),
            ("%U\n allow-overwrite=true\n", "overwrite"), ("%U\n if-exists=overwrite\n", "overwrite"),
            ("%U\n conditional-get=true\n", "conditional-get"), ("%U\n header=Authorization: x\n", "headers"),
            ("{\"url\":\"%U\",\"path\":\".ssh/authorized_keys\"}", ".ssh"),
            ("{\"url\":\"%U\",\"if_exists\":\"overwrite\"}", "overwrite"),
            ("{\"url\":\"%U\",\"method\":\"POST\"}", "method"),
            ("{\"url\":\"%U\",\"urls\":[\"s3://b/x\"]}", "objects of your buckets"),
            ("{\"url\":\"%U\",\"id\":\"a\",\"method\":\"POST\",\"body\":\"x\"}", "method"),
        ])
    func remote(_ list: String, _ words: String) async throws {
        let bench = GetBench()
        let target = Shared("")
        let origin = try OriginServer { request in
            guard request.path == "/list" else { return .file(Self.bytes, to: request) }
            return OriginReply(body: Array(list.replacing("%U", with: target.value).utf8))
        }
        target.value = origin.url("/f")
        let get = try await bench.get("-d", "sub", "-i", origin.url("/list"), environment: ["TMPDIR": bench.home.path])
        #expect(get.status == 2 && get.err.contains(words) && get.err.contains("list, line 1"), "\(get)")
        #expect(!origin.requests.contains { $0.path == "/f" })
        // A list of the user's own may say it, as far as haul get does it at all.
        if words == "overwrite" {
            bench.write("f", "old")
            let text = list.replacing("%U", with: target.value)
            #expect(try await bench.get("-i", "-", input: text).status == 0)
            #expect(bench.files.holds("f", Self.bytes))
        }
    }

    @Test("what a list says is shown without control characters") func printable() async throws {
        let bench = GetBench()
        let list = "http://h/a\n \u{1B}]0;title\u{7}\u{1B}[2J all files verified=1\n"
        let origin = try OriginServer { _ in OriginReply(body: Array(list.utf8)) }
        let get = try await bench.get("-i", origin.url("/list"), environment: ["TMPDIR": bench.home.path])
        #expect(get.status == 2 && get.err.contains("all files verified"), "\(get)")
        #expect(!get.err.utf8.contains { $0 < 0x20 && $0 != 0x0A })
    }

    @Test("a list from a server may name directories, and gets the user's password only for its own server")
    func confined() async throws {
        let bench = GetBench()
        let list = Shared("")
        let other = try OriginServer { .file(Self.bytes, to: $0) }
        let origin = try OriginServer { request in
            request.path == "/list" ? OriginReply(body: Array(list.value.utf8)) : .file(Self.bytes, to: request)
        }
        list.value = "\(origin.url("/a"))\n dir=in/side\n\(other.url("/b"))\n dir=in\n out=c\n"
        let get = try await bench.get(
            "-d", "sub", "-i", origin.url("/list"), "--bearer", "token", "-b", "a=1",
            environment: ["TMPDIR": bench.home.path])
        #expect(get.status == 0, "\(get)")
        #expect(bench.files.holds("sub/in/side/a", Self.bytes) && bench.files.holds("sub/in/c", Self.bytes))
        #expect(origin.requests.first { $0.path == "/a" }?.headers["authorization"] == "Bearer token")
        let foreign = try #require(other.requests.first)
        #expect(foreign.headers["authorization"] == nil && foreign.headers["cookie"] == nil)
    }

    @Test(
        "a job that haul get cannot do is refused with its line number before anything is sent",
        arguments: [
            ("\"kind\":\"upload\",\"file\":\"x\"", "kind"), ("\"kind\":\"request\",\"json\":{\"a\":1}", "kind"),
            ("\"kind\":\"request\"", "kind"), ("\"kind\":7", "kind"), ("\"json\":{\"a\":1}", "json"),
            ("\"files\":{\"a\":\"x\"}", "files"), ("\"deadline\":5", "deadline"), ("\"reply_to\":\"r\"", "reply_to"),
            ("\"path\":5", "path"), ("\"siez\":1", "unknown fields: siez"),
        ])
    func kinds(_ members: String, _ words: String) async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let list = "\(origin.url("/a"))\n{\"url\":\"\(origin.url("/b"))\",\(members)}\n"
        let get = try await bench.get("-i", "-", input: list)
        #expect(get.status == 2 && get.err.contains("line 2: ") && get.err.contains(words), "\(get)")
        #expect(origin.requests.isEmpty && bench.names.isEmpty)
    }

    @Test("a byte order mark at the beginning of a list is ignored") func byteOrderMark() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        bench.write("SUMS", "\u{FEFF}\(Self.bytes.sha256)  a\n")
        let get = try await bench.get(
            "-i", "-", "--checksum-file", bench.files.file("SUMS"), input: "\u{FEFF}\(origin.url("/a"))\n")
        #expect(get.status == 0 && get.out.contains("sha256 (given)"), "\(get)")
    }

    @Test("a Metalink file whose checksums cannot be verified is refused") func pieces() async throws {
        let bench = GetBench()
        for hashes in [
            "<pieces length=\"1\" type=\"sha-256\"><hash>ff</hash></pieces>", "<hash type=\"sha-384\">00</hash>",
        ] {
            bench.write(
                "x.meta4",
                """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="x">\(hashes)
                <url>http://127.0.0.1:1/x</url></file></metalink>
                """)
            let get = try await bench.get("x.meta4")
            #expect(get.status == 2 && get.err.contains("checksums of pieces"), "\(get)")
        }
    }

    @Test("a directory, a special file or a broken link of the same name ends the download before it begins")
    func neverReplaced() async throws {
        let bench = GetBench()
        let origin = try OriginServer {
            .file(Self.bytes, headers: [("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")], to: $0)
        }
        try FileManager.default.createDirectory(atPath: bench.files.file("d"), withIntermediateDirectories: true)
        mkfifo(bench.files.file("p"), 0o600)
        symlink("nowhere", bench.files.file("l"))
        for (name, words) in [("d", "is a directory"), ("p", "special file"), ("l", "link that leads nowhere")] {
            let get = try await bench.get(origin.url("/\(name)"))
            #expect(get.status == 1 && get.err.contains(words), "\(get)")
            if name != "l" { #expect(!get.out.contains("overwrite"), "\(get)") }
            #expect(try await bench.get(origin.url("/\(name)"), "--if-exists", "rename").status == 0)
            #expect(bench.files.holds("\(name) (1)", Self.bytes))
        }
        #expect(bench.names == ["d", "d (1)", "l", "l (1)", "p", "p (1)"])
    }

    @Test("an empty file that aria2 has left is replaced by one with the right checksum") func nothingWritten()
        async throws
    {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        // A control file without any piece.
        let control: [UInt8] =
            [0, 1] + [UInt8](repeating: 0, count: 8) + [0, 16, 0, 0] + [0, 0, 0, 0, 0, 0, 0x07, 0xD0]
            + [UInt8](repeating: 0, count: 8) + [0, 0, 0, 1, 0] + [0, 0, 0, 0]
        bench.write("x", [UInt8](repeating: 0, count: 2000))
        bench.write("x.aria2", control)
        let wrong = try await bench.get(origin.url("/x"), "--checksum", "sha256:" + FileBytes(seed: 1, count: 1).sha256)
        #expect(wrong.status == 1 && bench.names == ["x", "x.aria2"], "\(wrong)")
        let get = try await bench.get(origin.url("/x"), "--checksum", "sha256:" + Self.bytes.sha256)
        #expect(get.status == 0 && bench.files.holds("x", Self.bytes) && bench.names == ["x"], "\(get)")
    }

    @Test("a response without content is final, and an empty path is the same URL as /") func final() async throws {
        let bench = GetBench()
        let origin = try OriginServer { $0.path == "/none" ? OriginReply(204) : .file(Self.bytes, to: $0) }
        #expect(try await bench.get(origin.url("/none")).status == 1 && origin.requests.count == 1)
        let base = String(origin.url("/").dropLast())
        #expect(try await bench.get(base, "-o", "i").status == 0)
        #expect(try await bench.get(base + "/", "-o", "i").out.contains("same ETag"))
    }
}
