import HaulTestSupport
import Testing

/// Files that one command names more than once, in its arguments and lists.
@Suite(.timeLimit(.minutes(2))) struct GetRepeatedTests {
    private static let bytes = FileBytes(seed: 98, count: 2000)
    private static let other = FileBytes(seed: 99, count: 2000).sha256

    private func origin() throws -> OriginServer { try OriginServer { .file(Self.bytes, to: $0) } }

    @Test("a URL that is given again is one download, which has to do what both entries ask") func united() async throws
    {
        let (bench, origin) = (GetBench(), try origin())
        let list = "\(origin.url("/a"))\n checksum=sha-256=\(Self.bytes.sha256.uppercased())\n header=X-One: 1\n"
        let get = try await bench.get(origin.url("/a"), origin.url("/a"), "-i", "-", input: list)
        #expect(get.status == 0 && get.out.contains("sha256 (given)"), "\(get)")
        #expect(origin.requests.count == 1 && origin.requests[0].headers["x-one"] == "1")
        let wrong = "\(origin.url("/b"))\n checksum=sha-256=\(Self.other)\n"
        let failed = try await bench.get(origin.url("/b"), "-i", "-", input: wrong)
        #expect(failed.status == 1 && failed.err.contains("checksum_mismatch"), "\(failed)")
    }

    @Test("two entries of one URL that contradict each other are refused") func contradiction() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let json = "{\"url\":\"%U\",\"method\":\"POST\",\"body\":\"%B\"}\n"
        for (list, name) in [
            ("%U\n checksum=sha-256=\(Self.bytes.sha256)\n%U\n checksum=sha-256=\(Self.other)\n", "checksum"),
            (json.replacing("%B", with: "a") + json.replacing("%B", with: "b"), "body"),
            ("%U\n if-exists=skip\n%U\n if-exists=rename\n", "if-exists"),
        ] {
            let get = try await bench.get("-i", "-", input: list.replacing("%U", with: origin.url("/a")))
            #expect(get.status == 2 && get.err.contains("name the same file, and differ in \(name)"), "\(get)")
        }
        #expect(origin.requests.isEmpty)
    }

    @Test("the user's own URL gets the command's credentials, although a server's list has it, too") func own()
        async throws
    {
        let (bench, list) = (GetBench(), Shared(""))
        let other = try origin()
        let origin = try OriginServer { _ in OriginReply(body: Array(list.value.utf8)) }
        list.value = other.url("/a") + "\n"
        bench.write("own", list.value)
        let get = try await bench.get(
            "-i", origin.url("/list"), "-i", "own", "--bearer", "token", environment: ["TMPDIR": bench.home.path])
        #expect(get.status == 0 && other.requests.count == 1, "\(get)")
        #expect(other.requests[0].headers["authorization"] == "Bearer token")
    }

    @Test("a followed Metalink proves a file that the command names as well", arguments: [true, false])
    func metalink(_ isRight: Bool) async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            guard request.path == "/four" else { return .file(Self.bytes, to: request) }
            let text = """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="disc.iso">
                <hash type="sha-256">\(isRight ? Self.bytes.sha256 : Self.other)</hash>
                <url>http://\(request.headers["host"] ?? "")/f</url></file></metalink>
                """
            return OriginReply(headers: [("Content-Type", "application/metalink4+xml")], body: Array(text.utf8))
        }
        let list = "\(origin.url("/f"))\n out=disc.iso\n"
        let get = try await bench.get("-i", "-", origin.url("/four"), input: list)
        #expect(get.status == (isRight ? 0 : 1), "\(get)")
        #expect((get.out + get.err).contains(isRight ? "sha256 (given)" : "checksum_mismatch"), "\(get)")
        #expect(bench.files.holds("disc.iso", Self.bytes))
    }

    @Test("an option that a list gives twice counts once, and of two numbers of connections the smaller one")
    func options() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let list = "\(origin.url("/a"))\n split=16\n max-connection-per-server=2\n timeout=5\n timeout=7\n"
        let get = try await bench.get("-i", "-", input: list)
        #expect(get.status == 0 && bench.files.holds("a", Self.bytes), "\(get)")
    }
}
