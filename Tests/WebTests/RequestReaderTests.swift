import Testing

@testable import HaulHTTPServer

@Suite struct RequestReaderTests {
    private func step(_ text: String, limits: ServerLimits = ServerLimits()) -> RequestReader.Step {
        var reader = RequestReader(limits: limits)
        reader.add(Array(text.utf8))
        return reader.next()
    }

    private func status(_ text: String, limits: ServerLimits = ServerLimits()) -> Int? {
        if case .refused(let refusal) = step(text, limits: limits) { refusal.status } else { nil }
    }

    @Test("a request is read the same if it arrives byte by byte") func incremental() throws {
        let text =
            "\r\nPOST /a%20b?c=d HTTP/1.1\r\nHost: h\r\nX-A:  b c \t\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n"
        var reader = RequestReader(limits: ServerLimits())
        var steps: [RequestReader.Step] = []
        var body: [UInt8]?
        for byte in text.utf8 {
            reader.add([byte])
            if !steps.isEmpty, body == nil {
                body = reader.body(3)
                continue
            }
            let step = reader.next()
            if step != .more { steps.append(step) }
        }
        let expected = ServerRequest(
            method: "POST", path: "/a%20b", query: "c=d",
            fields: [("host", "h"), ("x-a", "b c"), ("content-length", "3")])
        #expect(steps == [.head(expected, body: 3)])
        #expect(body == Array("abc".utf8))
        #expect(reader.count == "GET / HTTP/1.1\r\n".utf8.count)
    }

    @Test(
        "a request that two servers could read differently is refused",
        arguments: [
            ("GET / HTTP/1.1\nHost: h\n\nx\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n\r\n", 400), ("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400), ("GET http://a@h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n", 400), ("GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400), ("GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
            ("GET / HTTP/1.1\r\nHost: h\r\nA: \u{1}\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: h\r\nA: \r\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n", 413),
            ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
            ("\u{16}\u{3}\u{1}\r\n\r\n", 400),
        ])
    func ambiguous(text: String, code: Int) {
        #expect(status(text) == code)
    }

    @Test("dates have the format of HTTP") func dates() {
        #expect(ServerResponse.date(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
    }

    @Test("a head that is too large is refused") func heads() {
        var limits = ServerLimits()
        limits.head = 1000
        limits.fields = 10
        #expect(status("GET /" + String(repeating: "a", count: 1100), limits: limits) == 414)
        let line = "GET / HTTP/1.1\r\nHost: h\r\n"
        #expect(status(line + "A: " + String(repeating: "a", count: 1000), limits: limits) == 431)
        #expect(status(line + "A: " + String(repeating: "a", count: 1000) + "\r\n\r\n", limits: limits) == 431)
        #expect(status(line + String(repeating: "A: b\r\n", count: 10) + "\r\n", limits: limits) == 431)
        #expect(status(line + String(repeating: "A: b\r\n", count: 9) + "\r\n", limits: limits) == nil)
    }

    @Test("a target that is a whole URL names the path, and its authority replaces the Host field")
    func absoluteForm() {
        for (target, path, query, host) in [
            ("http://a.example:8080/b?c=d", "/b", "c=d", "a.example:8080"), ("HTTPS://a.example", "/", "", "a.example"),
            ("http://a.example?c", "/", "c", "a.example"), ("/b", "/b", "", "h"),
        ] {
            guard case .head(let request, 0) = step("GET \(target) HTTP/1.1\r\nHost: h\r\n\r\n") else {
                Issue.record("\(target) was refused")
                continue
            }
            #expect(request.path == path && request.query == query && request["host"] == host, "\(target)")
        }
    }

    @Test("a reader never needs more bytes than one head has")
    func headroom() {
        var limits = ServerLimits()
        limits.head = 100
        var reader = RequestReader(limits: limits)
        var received = 0
        while reader.headroom > 0, reader.next() == .more {
            reader.add([UInt8](repeating: 97, count: min(7, reader.headroom)))
            received = reader.count
        }
        #expect(received <= 104)
    }
}
