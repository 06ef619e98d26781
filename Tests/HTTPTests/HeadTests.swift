import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

@Suite("The head of a response")
struct HeadTests {
    private let engine = localEngine()

    @Test("1xx responses before the head are not part of the head")
    func informational() async throws {
        let head = try await start(
            "HTTP/1.1 100 Continue\r\nX: a\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: \"v1\"\r\n\r\nhi")
        #expect(head.status == 200)
        #expect(head.headers.fields.map(\.name) == ["Content-Length", "ETag"])
        #expect(head.length == .bytes(2))
    }

    @Test("names ignore case, every value is kept in order, and folded lines are joined")
    func fields() async throws {
        let head = try await start(
            "HTTP/1.1 404 Nope\r\nVia: a\r\nVIA:  b \r\nvia: c\r\n  d\r\nContent-Length: 0\r\nEmpty:\r\n\r\n")
        #expect(head.status == 404)
        #expect(head.headers.all("via") == ["a", "b", "c d"])
        #expect(head.headers["Via"] == "a")
        #expect(head.headers["empty"] == "")
        #expect(head.headers["absent"] == nil)
    }

    @Test(
        "the length fields of the head determine how the body ends",
        arguments: [
            ("Content-Length: 5", ResponseHead.Length.bytes(5)),
            ("Content-Length: 5\r\nContent-Length: 5", .bytes(5)),
            ("Content-Length: 5, 5", .bytes(5)),
            ("Content-Length: 5\r\nContent-Length: 6", .invalid),
            ("Content-Length: 5, 6", .invalid),
            ("Content-Length: five", .invalid),
            ("Content-Length: +5", .invalid),
            ("Content-Length:", .invalid),
            ("Content-Length: 99999999999999999999", .invalid),
            ("Transfer-Encoding: Chunked\r\nContent-Length: 5", .chunked),
            ("Transfer-Encoding: chunked, chunked", .invalid), ("Transfer-Encoding: identity, chunked", .invalid),
            ("Transfer-Encoding: identity", .untilClose),
            ("X: y", .untilClose),
        ])
    func length(_ fields: String, _ expected: ResponseHead.Length) {
        var parser = HeadParser()
        var step = HeadParser.Step.more
        for line in ["HTTP/1.1 200 OK"] + fields.split(separator: "\r\n") + [""] {
            step = Array("\(line)\r\n".utf8).withUnsafeBytes { parser.consume($0) }
        }
        guard case .complete(200, let headers) = step else {
            Issue.record("no head: \(step)")
            return
        }
        #expect(ResponseHead.Length(method: "GET", status: 200, headers: headers) == expected)
        #expect(ResponseHead.Length(method: "HEAD", status: 200, headers: headers) == .bytes(0))
        #expect(ResponseHead.Length(method: "GET", status: 304, headers: headers) == .bytes(0))
    }

    @Test(
        "responses without a body end at once",
        arguments: [
            ("GET", "HTTP/1.1 204 No Content\r\n\r\n"), ("GET", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
            ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        ])
    func bodyless(_ method: String, _ response: String) async throws {
        let server = RawServer { connection in
            while connection.readRequest() != nil { connection.send(response) }
        }
        defer { server.stop() }
        var request = localRequest(server.url)
        request.method = method
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 2))
        let end = try await engine.start(request).receive(into: file, at: 0)
        #expect(end == TransferEnd(0, .length))
        #expect(file.written.isEmpty)
        // The connection is reusable: no bytes are left on it.
        #expect(try await fetch(engine, request) == [])
        #expect(server.connections == 1)
    }

    @Test("trailers after the body do not count as header fields")
    func trailers() async throws {
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: ETag\r\n\r\n")
            connection.send("3\r\nabc\r\n0\r\nETag: \"late\"\r\n\r\n")
        }
        defer { server.stop() }
        let transfer = try await engine.start(localRequest(server.url))
        #expect(try await transfer.collect(limit: 10) == Array("abc".utf8))
        #expect(transfer.head.headers["ETag"] == nil)
    }

    @Test(
        "a transfer coding that was not requested ends the transfer at the head, before a byte is decoded",
        arguments: [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: deflate\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: gzip\r\n\r\n",
            // libcurl would use the coding of an interim response for the body.
            "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: gzip\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n",
        ])
    func coding(_ head: String) async throws {
        let error = await thrown { () async throws(TransferError) in try await start(head + "body") }
        #expect(error?.code == .badResponse)
        #expect(error?.message?.contains("transfer coding") == true, "\(error as Any)")
    }

    @Test(
        "trailers are limited by their size and by their number",
        arguments: ["X: a\r\n", "X-Long-\(String(repeating: "a", count: 2000)): b\r\n"])
    func trailerLimits(_ trailer: String) async throws {
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")
            while connection.send(trailer) {}
        }
        defer { server.stop() }
        var request = localRequest(server.url)
        let bucket = TokenBucket(bytesPerSecond: 1 << 30)
        request.limits = [bucket]
        let error = await thrown { () async throws(TransferError) in try await fetch(engine, request) }
        #expect(error?.code == .badResponse)
        #expect(error?.message?.contains("trailers") == true)
        // They count in the rate limits.
        #expect(bucket.use().taken > trailer.utf8.count * 10)
    }

    @Test("all heads count in the rate limits: interim responses, the head and the trailers")
    func counted() async throws {
        let long = String(repeating: "a", count: 3000)
        let before = "HTTP/1.1 103 Early Hints\r\nX: \(long)\r\n\r\n"
        let head = "HTTP/1.1 200 OK\r\nX: \(long)\r\nTransfer-Encoding: chunked\r\n\r\n"
        let trailers = "X: \(long)\r\n\r\n"
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send(before + head + "5\r\nhello\r\n0\r\n" + trailers)
        }
        defer { server.stop() }
        var request = localRequest(server.url)
        let bucket = TokenBucket(bytesPerSecond: 1 << 30)
        request.limits = [bucket]
        #expect(try await fetch(engine, request) == Array("hello".utf8))
        let taken = bucket.use().taken
        #expect(taken >= (before + head + trailers).utf8.count, "\(taken)")
    }

    @Test("chunk extensions have a limit of their own, by what was read from the socket")
    func extensions() {
        let mebibyte: Int64 = 1 << 20
        let framing = FramingOverhead(read: 1000, buffer: 16 << 10)
        // A MiB is always allowed, and then 128 bytes for each byte of the body.
        #expect(!framing.isExcessive(read: mebibyte + 1000, accepted: 0))
        #expect(framing.isExcessive(read: mebibyte + 1001, accepted: 0))
        #expect(!framing.isExcessive(read: mebibyte + 1000 + 129 * 100, accepted: 100))
        #expect(framing.isExcessive(read: mebibyte + 1001 + 129 * 100, accepted: 100))
        #expect(!FramingOverhead(read: 1000, isHTTP2: true).isExcessive(read: 33 * mebibyte, accepted: 0))
    }

    @Test("framing counts in the rate limits once, and what libcurl has buffered does not count as framing")
    func counted() {
        var framing = FramingOverhead(read: 1000, buffer: 100)
        #expect(framing.isDue(10_000_000) && !framing.isDue(19_999_999) && framing.isDue(20_000_000))
        #expect(framing.uncounted(read: 1100, accepted: 0) == 0)
        #expect(framing.uncounted(read: 1600, accepted: 300) == 200)
        #expect(framing.uncounted(read: 1600, accepted: 300) == 0)
        // 50 bytes of these were of the body, as their delivery shows.
        #expect(framing.uncounted(read: 1600, accepted: 350) == -50)
        #expect(framing.uncounted(read: 1600, accepted: 400, isEnd: true) == 50)
    }

    @Test("a trailer now and then does not keep a transfer alive")
    func slowTrailers() async throws {
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")
            while connection.send("X: a\r\n") { usleep(100_000) }
        }
        defer { server.stop() }
        var request = localRequest(server.url)
        request.stallTimeout = .seconds(1)
        let error = await thrown { () async throws(TransferError) in try await fetch(engine, request) }
        #expect(error?.code == .stalled, "128 trailers would take 12 s")
    }

    @Test("lines after the head are ignored")
    func decided() {
        var parser = HeadParser()
        let feed = { (line: String) in Array((line + "\r\n").utf8).withUnsafeBytes { parser.consume($0) } }
        for line in ["HTTP/1.1 200 OK", "A: b", ""] { _ = feed(line) }
        for line in ["ETag: late", ""] {
            guard case .more = feed(line) else {
                Issue.record("a second head")
                return
            }
        }
    }

    @Test("a head that is too large is refused, by its size and by its number of fields")
    func limits() async throws {
        let long = "X-Long: " + String(repeating: "a", count: 8000) + "\r\n"
        let size = await thrown { () async throws(TransferError) in
            try await start("HTTP/1.1 200 OK\r\n" + String(repeating: long, count: 20) + "\r\n")
        }
        #expect(size?.code == .badResponse)
        let count = await thrown { () async throws(TransferError) in
            try await start("HTTP/1.1 200 OK\r\n" + String(repeating: "A: b\r\n", count: 600) + "\r\n")
        }
        #expect(count?.code == .badResponse)
    }

    @Test("a single line that is too large is the server's fault, and not a local error") func longLine() async throws {
        let error = await thrown { () async throws(TransferError) in
            try await start("HTTP/1.1 200 OK\r\nX: " + String(repeating: "a", count: 110_000) + "\r\n\r\n")
        }
        #expect(error?.code == .badResponse)
    }

    @Test("a server may send a hundred interim responses, and no more", arguments: [100, 101])
    func interims(_ count: Int) async throws {
        let interims = String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: count)
        let response = interims + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        guard count > HeadParser.interimCountLimit else {
            #expect(try await start(response).status == 200)
            return
        }
        let error = await thrown { () async throws(TransferError) in try await start(response) }
        #expect(error?.code == .badResponse)
        #expect(error?.message?.contains("interim") == true)
    }

    @Test(
        "a POST without a body sends Content-Length: 0, and a GET does not",
        arguments: [("POST", true), ("GET", false)])
    func withoutBody(_ method: String, _ isTold: Bool) async throws {
        let server = RawServer { connection in
            let head = connection.readRequest() ?? ""
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(head.utf8.count)\r\n\r\n\(head)")
            connection.waitForClose()
        }
        defer { server.stop() }
        var request = localRequest(server.url)
        request.method = method
        let sent = String(decoding: try await fetch(engine, request), as: UTF8.self)
        #expect(sent.hasPrefix("\(method) /file HTTP/1.1"))
        #expect(sent.contains("Content-Length: 0") == isTold)
        #expect(!sent.contains("Content-Type"))
    }

    @Test(
        "a response that is not HTTP, or that ends within the head, is an error",
        arguments: ["SSH-2.0-OpenSSH_9\r\n", ""])
    func nonsense(_ response: String) async throws {
        let error = await thrown { () async throws(TransferError) in try await start(response) }
        #expect(error?.code == (response.isEmpty ? .incomplete : .badResponse))
    }

    @Test("a request carries its method, headers and body, and nothing that libcurl would add")
    func request() async throws {
        let server = RawServer { connection in
            let head = connection.readRequest() ?? ""
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(head.utf8.count)\r\n\r\n\(head)")
            connection.waitForClose()
        }
        defer { server.stop() }
        var request = localRequest(server.url)
        request.method = "PUT"
        request.headers = [HeaderField("Range", "bytes=5-"), HeaderField("X-Empty", "")]
        request.body = .text("hello")
        let sent = String(decoding: try await fetch(engine, request), as: UTF8.self)
        let lines = sent.split(separator: "\r\n").map(String.init)
        #expect(lines.first == "PUT /file HTTP/1.1")
        #expect(lines.contains("Range: bytes=5-"))
        #expect(lines.contains("X-Empty:"))
        #expect(lines.contains("Content-Length: 5"))
        #expect(!sent.contains("Expect") && !sent.contains("Content-Type") && !sent.contains("User-Agent"))
    }

    @Test("a header that contains a line break is refused")
    func injection() async throws {
        var request = localRequest("http://127.0.0.1:1/")
        request.headers = [HeaderField("X", "a\r\nHost: evil")]
        #expect(
            await thrown { () async throws(TransferError) in try await engine.start(request) }?.code == .badJob)
        request.headers = [HeaderField("X: y\r\nZ", "a")]
        #expect(
            await thrown { () async throws(TransferError) in try await engine.start(request) }?.code == .badJob)
    }

    private func start(_ response: String) async throws(TransferError) -> ResponseHead {
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send(response)
        }
        defer { server.stop() }
        return try await engine.start(localRequest(server.url)).head
    }
}
