import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulDirect
@testable import HaulStorage

/// The arguments of `haul get` that name files, mirrors and checksums.
@Suite(.timeLimit(.minutes(2))) struct GetArgumentTests {
    private static let bytes = FileBytes(seed: 96, count: 300_000)

    @Test(
        "brackets and braces stand for several URLs, and others for themselves",
        arguments: [
            ("h/[1-3]", ["h/1", "h/2", "h/3"]), ("h/[08-10]", ["h/08", "h/09", "h/10"]),
            ("h/[a-c]{x,y}", ["h/ax", "h/ay", "h/bx", "h/by", "h/cx", "h/cy"]), ("h/[0-10:5]", ["h/0", "h/5", "h/10"]),
            ("h/{a,}", ["h/a", "h/"]), ("http://[::1]/f[1-2]", ["http://[::1]/f1", "http://[::1]/f2"]),
            ("h/[1-5:100000000000000]", ["h/1"]),
            ("h/{a}", ["h/{a}"]), ("h/[3-1]", ["h/[3-1]"]), ("h/[a-9]", ["h/[a-9]"]), ("h/[", ["h/["]),
            ("h/[1-2", ["h/[1-2"]), ("h/a", ["h/a"]),
        ])
    func patterns(_ text: String, _ urls: [String]) throws {
        #expect(try URLPattern(text).urls.map(\.text) == urls)
    }

    @Test("#1 in a name is what the first pattern stands for") func marks() throws {
        let url = URLPattern.URL(text: "h/a1", values: ["a", "1"])
        #expect(URLPattern.name("f#2-#1#3#.bin", of: url) == "f1-a#3#.bin")
        #expect(URLPattern.name("#1", of: URLPattern.URL(text: "h/")) == "#1")
    }

    @Test(
        "a checksum is read in each form that other programs write",
        arguments: [
            "sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
            "sha-256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "SHA256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        ])
    func checksums(_ text: String) {
        #expect(
            GivenChecksum.normalized(text)
                == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(GivenChecksum.normalized("nonsense") == "nonsense")
        #expect(GivenChecksum.normalized("d41d8cd98f00b204e9800998ecf8427e") == "md5:d41d8cd98f00b204e9800998ecf8427e")
    }

    @Test("each -o names its URL, and #1 names the files of a pattern") func outputs() async throws {
        let bench = GetBench()
        let origin = try OriginServer { OriginReply(body: Array($0.path.utf8)) }
        let two = try await bench.get("-o", "one", origin.url("/a"), "-o", "sub/two", origin.url("/b"))
        #expect(two.status == 0, "\(two)")
        #expect(bench.files.contents("one") == Array("/a".utf8) && bench.files.contents("sub/two") == Array("/b".utf8))
        let three = try await bench.get("-o", "f#1.txt", "-d", "d", origin.url("/[08-10]"))
        #expect(three.status == 0, "\(three)")
        for number in ["08", "09", "10"] {
            #expect(bench.files.contents("d/f\(number).txt") == Array("/\(number)".utf8))
        }
        #expect(try await bench.get(origin.url("/{x,y}")).status == 0)
        #expect(bench.files.contents("x") == Array("/x".utf8) && bench.files.contents("y") == Array("/y".utf8))
        #expect(try await bench.get("-g", origin.url("/{p,q}")).status == 0)
        #expect(bench.files.contents("{p,q}") != nil)
        let one = try await bench.get("-o", "name", origin.url("/[1-2]"))
        #expect(one.status == 2 && one.err.contains("names one file"), "\(one)")
    }

    @Test("a mirror of the command line is asked when the first URL fails, and it belongs to the file before it")
    func mirrors() async throws {
        let bench = GetBench()
        let origin = try OriginServer { $0.path == "/gone" ? OriginReply(404) : .file(Self.bytes, to: $0) }
        let get = try await bench.get(
            origin.url("/gone"), "--mirror", origin.url("/there"), "-o", "a", origin.url("/b"), "-o", "b")
        #expect(get.status == 0, "\(get)")
        #expect(bench.files.holds("a", Self.bytes) && bench.files.holds("b", Self.bytes))
        #expect(origin.requests.contains { $0.path == "/there" })
    }

    @Test("a mirror of several files has a pattern as well, and each file gets its own") func mirrorPatterns()
        async throws
    {
        let bench = GetBench()
        let origin = try OriginServer { request in
            request.path.hasPrefix("/gone") ? OriginReply(404) : OriginReply(body: Array(request.path.utf8))
        }
        let get = try await bench.get(origin.url("/gone/{a,b}"), "--mirror", origin.url("/there/{a,b}"))
        #expect(get.status == 0 && bench.names == ["a", "b"], "\(get)")
        for name in ["a", "b"] { #expect(bench.files.contents(name) == Array("/there/\(name)".utf8)) }
        for mirror in ["/there/a", "/there/[1-3]"] {
            let wrong = try await bench.get(origin.url("/gone/{c,d}"), "--mirror", origin.url(mirror))
            #expect(wrong.status == 2 && wrong.err.contains("each file needs a mirror of its own"), "\(wrong)")
        }
        // A pattern of mirrors alone does not name several files.
        let one = try await bench.get(origin.url("/gone/x"), "--mirror", origin.url("/there/{x,y}"), "-o", "x")
        #expect(one.status == 2 && one.err.contains("stands for 2 URLs"), "\(one)")
    }

    @Test("the name of a file after a redirect is used if only that one has an extension") func finalNames()
        async throws
    {
        let bench = GetBench()
        let origin = try OriginServer { request in
            switch request.path {
            case "/latest": OriginReply(302, headers: [("Location", "/prog-1.2.zip")])
            case "/film.mkv": OriginReply(302, headers: [("Location", "/objects/8f3a.bin")])
            case "/get.php?id=1": OriginReply(302, headers: [("Location", "/disc.iso")])
            case "/plain": OriginReply(302, headers: [("Location", "/other")])
            default: .file(Self.bytes, to: request)
            }
        }
        for path in ["/latest", "/film.mkv", "/get.php?id=1", "/plain"] {
            #expect(try await bench.get(origin.url(path)).status == 0)
        }
        #expect(bench.names == ["disc.iso", "film.mkv", "plain", "prog-1.2.zip"])
        #expect(try await bench.get(origin.url("/latest")).out.contains("unchanged  prog-1.2.zip"))
        for (name, has) in [("a.zip", true), ("v1.2", false), (".profile", false), ("a.", false), ("x.tar.gz", true)] {
            #expect(FileName.hasExtension(name) == has, "\(name)")
        }
    }

    @Test("several URLs go one after another to standard output, a pipe or a device") func streams() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            request.path == "/missing" ? OriginReply(404) : OriginReply(body: Array("\(request.path)\n".utf8))
        }
        let several = try await bench.get("-q", "-o", "-", origin.url("/a"), origin.url("/b"), origin.url("/[1-2]"))
        #expect(several.status == 0 && several.out == "/a\n/b\n/1\n/2\n", "\(several)")
        let mixed = try await bench.get("-q", "-o", "-", origin.url("/a"), origin.url("/missing"), origin.url("/b"))
        #expect(mixed.status == 1 && mixed.out == "/a\n/b\n" && mixed.err.contains("http_404"), "\(mixed)")
        let null = try await bench.get("-o", "/dev/null", "-w", "%{size_download} %{http_code}\\n", origin.url("/abc"))
        #expect(null.status == 0 && null.out == "5 200\n" && null.err.contains("5 B written"), "\(null)")
        mkfifo(bench.files.file("pipe"), 0o600)
        let reader = try ChildProcess("cat", [bench.files.file("pipe")])
        #expect(try await bench.get("-q", "-o", "pipe", origin.url("/x")).status == 0)
        #expect(try await reader.wait() == 0 && reader.standardOutput == "/x\n")
        #expect(bench.names == ["pipe"])
    }

    @Test("a Metalink is followed by its name, as a URL, too") func metalink() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            guard request.path == "/release.meta4?v=1" else { return .file(Self.bytes, to: request) }
            let host = request.headers["host"] ?? ""
            return OriginReply(
                body: Array(
                    """
                    <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="disc.iso"><size>300000</size>
                    <url>http://\(host)/f</url></file></metalink>
                    """.utf8))
        }
        let get = try await bench.get(origin.url("/release.meta4?v=1"))
        #expect(get.status == 0 && bench.names == ["disc.iso"] && bench.files.holds("disc.iso", Self.bytes), "\(get)")
    }

    @Test("a URL that turns out to be a Metalink stands for its files, even after a redirect")
    func metalinkByType() async throws {
        let origin = try OriginServer { request in
            let host = request.headers["host"] ?? ""
            let text = """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="disc.iso"><size>300000</size>
                <url>http://\(host)/none</url><url>http://\(host)/f</url></file></metalink>
                """
            switch request.path {
            case "/four":
                return OriginReply(headers: [("Content-Type", "application/metalink4+xml")], body: Array(text.utf8))
            case "/three":
                return OriginReply(headers: [("Content-Type", "Application/Metalink+XML; a=b")], body: Array(text.utf8))
            case "/moved": return OriginReply(302, headers: [("Location", "/four")])
            case "/page":
                return OriginReply(
                    headers: [("Content-Type", "application/metalink4+xml")], body: Array("<html><p>Log in</html>".utf8)
                )
            case "/large":
                return OriginReply(
                    headers: [("Content-Type", "application/metalink4+xml")],
                    body: Array(repeating: UInt8(ascii: " "), count: 17 << 20))
            case "/none": return OriginReply(404)
            default: return .file(Self.bytes, to: request)
            }
        }
        for path in ["/four", "/three", "/moved"] {
            let bench = GetBench()
            let get = try await bench.get(origin.url(path), origin.url("/x"))
            #expect(get.status == 0 && bench.names == ["disc.iso", "x"], "\(path): \(get)")
            #expect(bench.files.holds("disc.iso", Self.bytes))
            // The same command again finds the same files.
            let again = try await bench.get(origin.url(path), origin.url("/x"))
            #expect(again.status == 0 && bench.names == ["disc.iso", "x"], "\(path): \(again)")
        }
        for (option, names) in [
            ("--no-follow-metalink", ["four"]), ("--follow-metalink=false", ["four"]), ("-oown", ["own"]),
            ("--follow-metalink=mem", ["disc.iso"]),
        ] {
            let bench = GetBench()
            let get = try await bench.get(option, origin.url("/four"))
            #expect(get.status == 0 && bench.names == names, "\(option): \(get)")
        }
        let bench = GetBench()
        #expect(try await bench.get("-o", "-", origin.url("/four")).out.contains("<metalink"))
        let page = try await bench.get(origin.url("/page"))
        #expect(page.status == 1 && page.err.contains("--no-follow-metalink saves it as it is"), "\(page)")
        let large = try await bench.get(origin.url("/large"))
        #expect(large.status == 1 && large.err.contains("too_large"), "\(large)")
        #expect(bench.names.isEmpty)
    }

    @Test("a file of a followed Metalink whose name another download of the command has is an error, and not left out")
    func metalinkOfATakenName() async throws {
        let origin = try OriginServer { request in
            guard request.path == "/four" else { return .file(Self.bytes, to: request) }
            let text = """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="disc.iso">
                <url>http://\(request.headers["host"] ?? "")/f</url></file></metalink>
                """
            return OriginReply(headers: [("Content-Type", "application/metalink4+xml")], body: Array(text.utf8))
        }
        let bench = GetBench()
        let list = origin.url("/other") + "\n out=disc.iso\n"
        let get = try await bench.get("-i", "-", origin.url("/four"), input: list)
        #expect(get.status == 1 && get.err.contains("both name their file disc.iso"), "\(get)")
        #expect(!origin.requests.contains { $0.path == "/f" })
        // The same file, once more, is one download.
        let same = origin.url("/f") + "\n out=disc.iso\n"
        let again = try await GetBench().get("-i", "-", origin.url("/four"), input: same)
        #expect(again.status == 0 && origin.requests.count { $0.path == "/f" } == 1, "\(again)")
    }
}
