import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// Whatever a server sends without end or measure, the command that receives it ends, says why in a short message, takes
/// a bounded number of bytes, and needs hardly more memory than for a small file.
///
/// Sizes are random: HAUL_HOSTILE_SEED chooses others, and HAUL_HOSTILE_ROUNDS repeats all shapes, and the slow ones.
@Suite("Hostile servers", .timeLimit(.minutes(30)))
struct HostileServerTests {
    /// What was seen of one run of a command.
    private struct Seen {
        var status: Int32
        var text: String
        /// The peak of its resident memory, in KiB.
        var peak: Int
        /// The bytes that the server could send.
        var sent: Int
    }

    /// Runs a command in a directory, and writes the peak of its resident memory in KiB behind what it wrote. Only the
    /// kernel's account of an ended process has the whole peak: a busy machine may run a short command between two
    /// samples of proc(5).
    private static let measured = """
        import resource, subprocess, sys
        status = subprocess.call(sys.argv[2:], cwd=sys.argv[1])
        sys.stderr.write("\\n%d" % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
        sys.exit(status if status >= 0 else 128 - status)
        """

    /// Runs a command to its end.
    private static func run(_ words: [String], in bench: GetBench, _ sent: Shared<Int>) async throws -> Seen {
        let keys = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"]
        let clean = ["XDG_STATE_HOME": bench.home.path, "no_proxy": "", "HOME": bench.home.path]
        let process = try ChildProcess(
            "/usr/bin/env",
            ["python3", "-c", Self.measured, bench.files.path, ChildProcess.path(of: "haul")!] + words,
            environment: keys.merging(clean) { $1 })
        try await eventually("the end of haul \(words)", within: .seconds(120)) { !process.isRunning }
        let status = try await process.wait()
        let lines = process.standardError.split(separator: "\n", omittingEmptySubsequences: false)
        let text = process.standardOutput + lines.dropLast().joined(separator: "\n")
        return Seen(status: status, text: text, peak: try #require(lines.last.flatMap { Int($0) }), sent: sent.value)
    }

    /// A server that sends `first` and then `piece` again and again, up to `limit` bytes, to whatever is asked.
    private static func endless(
        _ first: String, _ piece: String, limit: Int = .max, last: String = "", _ sent: Shared<Int>
    ) -> RawServer {
        let (first, piece, last) = (Array(first.utf8), Array(piece.utf8), Array(last.utf8))
        return RawServer { connection in
            guard let head = connection.readRequest() else { return }
            // A client that still sends its body would not read the answer.
            let length = head.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length: ") }
            _ = connection.readBody(length.flatMap { Int($0.dropFirst(16)) } ?? 0)
            func send(_ bytes: [UInt8]) -> Bool {
                guard connection.send(bytes) else { return false }
                sent.change { $0 += bytes.count }
                return true
            }
            guard send(first) else { return }
            var count = 0
            while count < limit, send(piece) { count += piece.count }
            if count >= limit { _ = send(last) }
        }
    }

    // MARK: Responses

    /// Endless responses: the first bytes, and what is repeated. `n` is a random number of bytes, `s` is a text of it.
    private static func responses(_ n: Int) -> [(name: String, first: String, piece: String, words: String)] {
        let (ok, s) = ("HTTP/1.1 200 OK\r\n", String(repeating: "a", count: n))
        let chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
        let ended = chunked + "5\r\nhello\r\n0\r\n"
        return [
            ("fields", ok, "X: \(s.prefix(3000))\r\n", "response head"),
            ("cookies", ok, "Set-Cookie: c\(n)=\(s.prefix(3000))\r\n", "response head"),
            ("digests", ok, "Repr-Digest: sha-256=:\(s.prefix(3000)):\r\n", "response head"),
            ("a field", ok + "X: ", s, "header line"), ("a status line", "HTTP/1.1 200 ", s, "header line"),
            // libcurl finds that this is not HTTP, or that the line is too long: that depends on the first bytes it gets.
            ("no line", "", s, ""),
            ("folded lines", ok + "X: a\r\n", " \(s.prefix(3000))\r\n", "response head"),
            ("interim responses", "", "HTTP/1.1 103 Early\r\nX: \(s.prefix(200))\r\n\r\n", "interim"),
            ("an interim response", "HTTP/1.1 103 Early\r\n", "X: \(s.prefix(3000))\r\n", "response head"),
            ("trailers", ended, "X: \(s.prefix(3000))\r\n", "trailers"), ("a trailer", ended + "X: ", s, ""),
            ("a chunk size", chunked, String(repeating: "0", count: n), "chunk"),
            ("a chunk extension", chunked + "5;x=", s, "between chunk extensions"),
            (
                "chunk extensions", chunked, "1;x=\(s)\(String(repeating: "a", count: 60))\r\nb\r\n",
                "between chunk extensions"
            ),
            ("a transfer coding", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", s, "transfer coding"),
            ("an error's body", "HTTP/1.1 404 No\r\n\r\n", s, "http_404"),
            ("redirects with bodies", "HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", s, "more than 10 redirects"),
            ("challenges", "HTTP/1.1 401 No\r\n", "WWW-Authenticate: Digest realm=\(s.prefix(3000))\r\n", "head"),
        ]
    }

    /// Responses of one long value, each of which is complete. Most of them are taken: then they must leave no long
    /// message.
    private static func values(_ n: Int) -> [(name: String, field: String)] {
        let s = String(repeating: "v", count: min(95_000, 4000 + n))
        return [
            ("an ETag", "ETag: \"\(s)\""), ("a Last-Modified", "Last-Modified: \(s)"),
            ("a Content-Encoding", "Content-Encoding: \(s)"), ("a Content-Type", "Content-Type: \(s)"),
            ("a file name", "Content-Disposition: attachment; filename=\(s)"),
            ("a digest", "Content-Digest: sha-256=:\(s):"), ("a server", "Server: \(s)"),
        ]
    }

    private static let seed = ProcessInfo.processInfo.environment["HAUL_HOSTILE_SEED"].flatMap { UInt64($0) } ?? 1
    private static let rounds = ProcessInfo.processInfo.environment["HAUL_HOSTILE_ROUNDS"].flatMap { Int($0) }

    /// The work of all shapes, four at a time.
    private static func each<Shape: Sendable>(
        _ shapes: [Shape], _ body: @escaping @Sendable (Shape) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, shape) in shapes.enumerated() {
                if index >= 4 { try await group.next() }
                group.addTask { try await body(shape) }
            }
            try await group.waitForAll()
        }
    }

    private static func expect(
        _ seen: Seen, _ name: String, over baseline: Int, memory: Int, failure words: String? = nil,
        sent: Int? = 24 << 20, _ location: SourceLocation = #_sourceLocation
    ) {
        #expect(seen.peak - baseline < memory << 10, "\(name): \(seen.peak - baseline) KiB", sourceLocation: location)
        #expect(seen.text.utf8.count < 8 << 10, "\(name): \(seen.text.utf8.count)", sourceLocation: location)
        if let sent { #expect(seen.sent < sent, "\(name): \(seen.sent) bytes", sourceLocation: location) }
        guard let words else { return }
        #expect(seen.status == 1 || seen.status == 2, "\(name): \(seen.status)", sourceLocation: location)
        #expect(
            words.isEmpty || seen.text.contains(words), "\(name), seed \(seed): \(seen.text.suffix(400))",
            sourceLocation: location)
    }

    /// The peak of the same command with a small file, in KiB.
    private static func baseline() async throws -> Int {
        let sent = Shared(0)
        let server = endless("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello", limit: 5, sent)
        defer { server.stop() }
        return try await run(["get", server.url], in: GetBench(), sent).peak
    }

    @Test("a response without end is refused, in a download and in the answer to an upload") func endless() async throws
    {
        let baseline = try await Self.baseline()
        var generator = SeededGenerator(state: Self.seed)
        for _ in 0..<(Self.rounds ?? 1) {
            let all = Self.responses(Int.random(in: 100...60_000, using: &generator))
            try await Self.each(all) { shape in
                let (sent, bench) = (Shared(0), GetBench())
                let server = Self.endless(shape.first, shape.piece, sent)
                defer { server.stop() }
                let seen = try await Self.run(["get", "--retries", "0", "-v", server.url], in: bench, sent)
                // The sockets show chunk extensions only at a tick, four times a second.
                let isUncounted = shape.name.contains("chunk extension")
                Self.expect(
                    seen, shape.name, over: baseline, memory: 24, failure: shape.words,
                    sent: isUncounted ? nil : shape.name.contains("redirects") ? 160 << 20 : 24 << 20)
            }
            let some = Self.rounds == nil ? all.filter { ["fields", "trailers"].contains($0.name) } : all
            try await Self.each(some.filter { !$0.name.contains("chunk extension") }) { shape in
                let (sent, bench) = (Shared(0), GetBench())
                bench.write("f", "hello")
                let server = Self.endless(shape.first, shape.piece, sent)
                defer { server.stop() }
                let seen = try await Self.run(["put", "--retries", "0", "f", server.url], in: bench, sent)
                Self.expect(seen, "put: \(shape.name)", over: baseline, memory: 24, failure: "", sent: 160 << 20)
            }
        }
    }

    @Test("a long value in a head leaves no long message, and no long record") func values() async throws {
        let baseline = try await Self.baseline()
        var generator = SeededGenerator(state: Self.seed)
        for _ in 0..<(Self.rounds ?? 1) {
            try await Self.each(Self.values(Int.random(in: 0...90_000, using: &generator))) { shape in
                let (sent, bench) = (Shared(0), GetBench())
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\(shape.field)\r\n\r\n"
                let server = Self.endless(head, "hello", limit: 5, sent)
                defer { server.stop() }
                let seen = try await Self.run(["get", "--retries", "0", "-v", server.url], in: bench, sent)
                Self.expect(seen, shape.name, over: baseline, memory: 24)
                let record = bench.home.contents("haul/get/journal")?.count ?? 0
                #expect(record < 16 << 10, "\(shape.name): \(record)")
            }
        }
    }

    @Test("redirects that set cookies without end are followed to their limit") func cookies() async throws {
        let baseline = try await Self.baseline()
        let origin = try OriginServer { request in
            let cookies = (0..<30).map {
                ("Set-Cookie", "c\(request.path.dropFirst())_\($0)=\(String(repeating: "v", count: 4000))")
            }
            return OriginReply(
                302, headers: [("Location", "/\((Int(request.path.dropFirst()) ?? 0) + 1)")] + cookies)
        }
        let seen = try await Self.run(["get", "--retries", "0", origin.url("/0")], in: GetBench(), Shared(0))
        Self.expect(seen, "cookies", over: baseline, memory: 24, failure: "more than 10 redirects")
        #expect(origin.requests.allSatisfy { ($0.headers["cookie"] ?? "").utf8.count < 256 << 10 })
    }

    // MARK: Lists

    @Test("a list or a Metalink of a server has a limited size, number of entries and depth") func lists() async throws
    {
        let baseline = try await Self.baseline()
        var generator = SeededGenerator(state: Self.seed)
        let metalink = "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">"
        for _ in 0..<(Self.rounds ?? 1) {
            let n = Int.random(in: 1...3000, using: &generator)
            let s = String(repeating: "a", count: n)
            let most = Int.random(in: Self.rounds == nil ? 1 << 20...2 << 20 : 8 << 20...15 << 20, using: &generator)
            func many(_ text: String) -> String { String(repeating: text, count: 5000) }
            var shapes: [(name: String, option: String, first: String, piece: String, limit: Int, words: String)] = [
                ("list", "-i", "", many("http://h/\(n)\n"), .max, "too_large"),
                ("lines", "-i", "", many("a\n"), most, "lines"),
                ("files", "-M", metalink, many("<file/>"), most, "files"),
                ("depth", "-M", metalink, many("<a>"), most, "nested deeper"),
            ]
            if Self.rounds != nil {
                shapes += [
                    ("one line", "-i", "", s, .max, "too_large"),
                    ("a metalink", "-M", metalink, "<a/>", .max, "too_large"),
                    ("arrays", "-i", "{\"url\":", many("["), most, "nested deeper"),
                    ("elements", "-M", metalink, many("<a/>"), most, "names no file"),
                    ("an attribute", "-M", metalink + "<a b=\"", s, most, ""),
                    ("urls", "-M", metalink + "<file name=\"a\">", many("<url>ftp://h/</url>"), most, "no http"),
                    (
                        "checksums", "--checksum-file", "", many(String(repeating: "0", count: 64) + "  x\n"), most,
                        "lines"
                    ),
                ]
            }
            try await Self.each(shapes) { shape in
                let (sent, bench) = (Shared(0), GetBench())
                let ends = ["an attribute": "\"/></metalink>", "urls": "</file></metalink>", "depth": ""]
                let last = shape.option == "-M" ? ends[shape.name] ?? "</metalink>" : ""
                let server = Self.endless(
                    "HTTP/1.1 200 OK\r\n\r\n" + shape.first, shape.piece, limit: shape.limit, last: last, sent)
                defer { server.stop() }
                let more = shape.option == "--checksum-file" ? ["http://127.0.0.1:1/y"] : []
                let seen = try await Self.run(
                    ["get", "--retries", "0", shape.option, server.url] + more, in: bench, sent)
                Self.expect(
                    seen, shape.name, over: baseline, memory: Self.rounds == nil ? 48 : 192, failure: shape.words,
                    sent: 40 << 20)
            }
        }
    }

    // MARK: Uploads by tus

    @Test("the answers of a tus server may be of any length, and the upload ends") func tus() async throws {
        let baseline = try await Self.baseline()
        var generator = SeededGenerator(state: Self.seed)
        let length = Int.random(in: 20_000...95_000, using: &generator)
        let (s, digits) = (String(repeating: "v", count: length), String(repeating: "9", count: length))
        let shapes = [
            ("version", "Tus-Version", s, "and not 1.0.0"), ("location", "Location", "/\(s)", "longer than 8192"),
            ("offset", "Upload-Offset", digits, "the tus server"), ("nothing", "", "", "the tus server has 0 bytes"),
        ]
        try await Self.each(shapes) { name, field, value, words in
            let bench = GetBench()
            bench.write("f", "hello")
            let origin = try OriginServer { request in
                let fields: [String: [(String, String)]] = [
                    "OPTIONS": [("Tus-Version", "1.0.0"), ("Tus-Extension", "creation")],
                    "POST": [("Location", "/u")], "PATCH": [("Upload-Offset", "0")], "HEAD": [("Upload-Offset", "0")],
                ]
                var reply = OriginReply(request.method == "POST" ? 201 : 204)
                reply.framing = request.method == "POST" ? .length : .none
                reply.headers = (fields[request.method] ?? []).map { $0.0 == field ? (field, value) : $0 }
                return reply
            }
            let seen = try await Self.run(
                ["put", "--tus", "--retries", "0", "f", origin.url("/x")], in: bench, Shared(0))
            Self.expect(seen, name, over: baseline, memory: 24, failure: words)
            #expect(origin.requests.count < 40, "\(name)")
        }
    }

    // MARK: Object stores

    @Test("an object store's XML may have any size, and takes a bounded amount of memory") func store() async throws {
        var generator = SeededGenerator(state: Self.seed)
        let n = Int.random(in: (1 << 20)...(7 << 20), using: &generator)
        let spaces = [UInt8](repeating: 0x20, count: n), long = String(repeating: "x", count: n)
        let many = String(repeating: "<a/>", count: n / 4)
        let result = "InitiateMultipartUploadResult"
        var shapes: [(name: String, status: Int, body: [UInt8])] = [
            ("elements", 200, Self.xml(result, many)), ("an id", 200, Self.xml(result, "<UploadId>\(long)</UploadId>")),
            (
                "an error", 400,
                Self.xml("Error", "<Code>\(long.prefix(n / 2))</Code><Message>\(long.prefix(n / 2))</Message>")
            ),
            ("whitespace", 200, [UInt8](repeating: 0x20, count: 9 << 20)),
        ]
        if Self.rounds != nil {
            shapes += [
                ("whitespace before", 200, spaces + Self.xml(result, "")),
                ("depth", 200, Array(many.replacing("/", with: "").utf8)),
                ("no XML", 503, Array(long.utf8)), ("a listing", 0, []), ("an ETag", -1, []),
            ]
        }
        let bytes = FileBytes(seed: 3, count: 9 << 20)
        let baseline = try await Self.send(bytes) { _ in nil }.peak
        try await Self.each(shapes) { name, status, body in
            let seen = try await Self.send(bytes) { request in
                if name == "a listing", request.path.contains("list-type") {
                    let next =
                        "<NextContinuationToken>\(request.number)\(UInt64.random(in: 0...(.max)))</NextContinuationToken>"
                    return OriginReply(
                        200, body: Self.xml("ListBucketResult", "<IsTruncated>true</IsTruncated>" + next))
                }
                if name == "an ETag", request.path.contains("partNumber") {
                    return OriginReply(200, headers: [("ETag", String(long.prefix(90_000)))])
                }
                guard status > 0, request.method == "POST", request.path.hasSuffix("?uploads=") else { return nil }
                return OriginReply(status, body: body)
            }
            Self.expect(seen, name, over: baseline, memory: 64, failure: "", sent: nil)
        }
    }

    private static func xml(_ name: String, _ text: String) -> [UInt8] { Array("<\(name)>\(text)</\(name)>".utf8) }

    /// Downloads a file into a bucket of a scripted store, whose usual answers are those of an empty one.
    private static func send(
        _ bytes: FileBytes, _ answer: @escaping @Sendable (OriginRequest) -> OriginReply?
    ) async throws -> Seen {
        let origin = try OriginServer { .file(bytes, to: $0) }
        let store = try OriginServer { request in
            if let reply = answer(request) { return reply }
            switch request.method {
            case "PUT": return OriginReply(200, headers: [("ETag", "\"e\"")])
            case "GET" where request.path.contains("list-type"):
                return OriginReply(200, body: Array("<ListBucketResult></ListBucketResult>".utf8))
            case "POST" where request.path.hasSuffix("?uploads="):
                return OriginReply(
                    200,
                    body: Array("<I><UploadId>u</UploadId></I>".utf8))
            default: return OriginReply(404)
            }
        }
        return try await run(
            [
                "get", "--retries", "0", "-d", "s3://bucket/p/", "--s3-endpoint", store.url(""), origin.url("/x"),
            ], in: GetBench(), Shared(0))
    }

    // MARK: Addresses

    @Test("a worker refuses the metadata services of all clouds by default, also after a redirect")
    func metadata() async throws {
        let fleet = try await ProcessFleet()
        let worker = try fleet.worker("w")
        let services = [
            "169.254.169.254", "169.254.170.2", "169.254.170.23", "[fd00:ec2::254]", "[fd00:ec2::23]",
            "[fd20:ce::254]", "168.63.129.16", "100.100.100.200", "[fd00:c1::a9fe:a9fe]", "[fd00:42::42]",
            "[fe80::a9fe:a9fe]", "192.0.0.192", "[::ffff:169.254.169.254]",
        ]
        let redirecting = try OriginServer { request in
            OriginReply(302, headers: [("Location", "http://\(services[Int(request.path.dropFirst()) ?? 0])/")])
        }
        for (index, service) in services.enumerated() {
            try await fleet.push("http://\(service)/latest/meta-data/", as: "m\(index)", more: #","retries":0"#)
            try await fleet.push(redirecting.url("/\(index)"), as: "r\(index)", more: #","retries":0"#)
        }
        for (index, service) in services.enumerated() {
            for id in ["m\(index)", "r\(index)"] {
                try await fleet.wait(id, for: "failed")
                #expect(try await fleet.field("error", of: id) == "address_forbidden", "\(service)")
            }
        }
        try await fleet.end(worker)
    }
}
