import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

@Suite("The body of a response")
struct BodyTests {
    private let engine = localEngine()
    private let diskWriter = DiskWriter(blocks: 4)

    /// A server that sends `head`, then `body` in pieces of a few KiB, and then runs `after`.
    private func server(
        _ head: String, _ body: [UInt8], after: @escaping @Sendable (RawConnection) -> Void = { _ in }
    ) -> RawServer {
        RawServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send(head + "\r\n\r\n")
            for start in stride(from: 0, to: body.count, by: 7000) {
                guard connection.send(body[start..<min(start + 7000, body.count)]) else { return }
            }
            after(connection)
        }
    }

    private func file() -> OutputFile { OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter) }

    @Test(
        "a body is written to the file at any offset", arguments: [0, 1, 4096, 65_535, 1_048_575, 3_000_001])
    func offsets(_ offset: Int) async throws {
        let body = testBytes(2_500_000)
        let server = server("HTTP/1.1 206 Partial\r\nContent-Length: \(body.count)", body)
        defer { server.stop() }
        let file = file()
        let transfer = try await engine.start(localRequest(server.url))
        let end = try await transfer.receive(into: file, at: Int64(offset), length: Int64(body.count))
        #expect(end.position == Int64(offset + body.count) && end.bytes == Int64(body.count) && end.reason == .length)
        #expect(file.written == ByteIntervals([Int64(offset)..<Int64(offset + body.count)]))
        #expect(Array(contents(file.descriptor)[offset...]) == body)
        #expect(transfer.progress.received == Int64(body.count))
    }

    @Test("chunks are joined")
    func chunked() async throws {
        let server = server(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
            Array("5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n".utf8))
        defer { server.stop() }
        let file = file()
        let end = try await engine.start(localRequest(server.url)).receive(into: file, at: 0)
        #expect(end == TransferEnd(11, .length))
        #expect(contents(file.descriptor) == Array("hello world".utf8))
    }

    @Test(
        "malformed chunks are an error, and so is a missing last chunk",
        arguments: ["5\r\nhello\r\nxyz\r\n", "5\r\nhelloX", "5\r\nhello\r\n", "5\r\nhel"])
    func badChunks(_ body: String) async throws {
        let server = server("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", Array(body.utf8))
        defer { server.stop() }
        let error = await thrown { () async throws(TransferError) in
            try await fetch(engine, localRequest(server.url))
        }
        #expect(error?.code == .badResponse || error?.code == .incomplete)
    }

    @Test("the cause of a broken body is known even after another transfer has reused libcurl's handle")
    func replyGraces() async throws {
        let server = RawServer { connection in
            guard let head = connection.readRequest() else { return }
            let isBroken = head.contains("/broken")
            connection.send(
                isBroken
                    ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc"
                    : "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
            connection.waitForClose()
        }
        defer { server.stop() }
        let engine = localEngine()
        let broken = try await engine.start(localRequest("http://127.0.0.1:\(server.port)/broken"))
        for _ in 0..<3 { _ = try await fetch(engine, localRequest(server.url)) }
        let error = await thrown { () async throws(TransferError) in try await broken.collect(limit: 10) }
        #expect(error?.code == .badResponse)
        #expect(error?.message?.contains("hexadecimal") == true, "\(String(describing: error))")
    }

    @Test("a short body is incomplete, and its bytes are in the file", arguments: [true, false])
    func short(_ reset: Bool) async throws {
        let body = testBytes(100_000)
        let server = server("HTTP/1.1 206 Partial\r\nContent-Length: 100001", body) { connection in
            if reset { connection.reset() }
        }
        defer { server.stop() }
        let file = file()
        let error = await thrown { () async throws(TransferError) in
            try await engine.start(localRequest(server.url)).receive(into: file, at: 0)
        }
        #expect(error?.code == .incomplete)
        #expect(error?.message?.contains("100000 of 100001") == true)
        #expect(file.written == ByteIntervals([0..<100_000]))
        #expect(contents(file.descriptor) == body)
    }

    @Test("a body shorter than required is incomplete, even if its Content-Length is right")
    func shortOfDemand() async throws {
        let server = server("HTTP/1.1 206 Partial\r\nContent-Length: 10", testBytes(10))
        defer { server.stop() }
        let error = await thrown { () async throws(TransferError) in
            try await engine.start(localRequest(server.url)).receive(into: file(), at: 0, length: 20)
        }
        #expect(error?.code == .incomplete)
    }

    @Test(
        "an overlong body is clipped and reported",
        arguments: ["Content-Length: 50000", "Transfer-Encoding: identity", "X: until close"])
    func overlong(_ field: String) async throws {
        let body = testBytes(50_000)
        let server = server("HTTP/1.1 206 Partial\r\n\(field)", body) { $0.waitForClose() }
        defer { server.stop() }
        let file = file()
        let end = try await engine.start(localRequest(server.url)).receive(into: file, at: 0, length: 40_000)
        #expect(end == TransferEnd(40_000, .length, isOverlong: true))
        #expect(contents(file.descriptor) == Array(body[..<40_000]))
    }

    @Test("a transfer ends with its last byte, even if the server neither ends the response nor closes")
    func unendingEnd() async throws {
        let server = server("HTTP/1.1 206 Partial\r\nX: until close", testBytes(1000)) { $0.waitForClose() }
        defer { server.stop() }
        let end = try await engine.start(localRequest(server.url)).receive(into: file(), at: 0, length: 1000)
        #expect(end == TransferEnd(1000, .length))
    }

    @Test("contradictory lengths are refused")
    func conflicting() async throws {
        let server = server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6", testBytes(6))
        defer { server.stop() }
        let transfer = try await engine.start(localRequest(server.url))
        #expect(transfer.head.length == .invalid)
        let error = await thrown { () async throws(TransferError) in
            try await transfer.receive(into: file(), at: 0)
        }
        #expect(error?.code == .badResponse)
    }

    @Test("a body that ends with the connection is reported as such")
    func untilClose() async throws {
        let body = testBytes(20_000)
        let server = server("HTTP/1.1 200 OK\r\nX: y", body)
        defer { server.stop() }
        let file = file()
        let end = try await engine.start(localRequest(server.url)).receive(into: file, at: 0)
        #expect(end == TransferEnd(20_000, .close))
        #expect(contents(file.descriptor) == body)
    }

    @Test("a body waits at its first byte until it has a destination")
    func pausedAtFirstByte() async throws {
        let body = testBytes(300_000)
        let server = server("HTTP/1.1 200 OK\r\nContent-Length: 300000", body)
        defer { server.stop() }
        var request = localRequest(server.url)
        // Longer than a slow machine needs to respond.
        request.stallTimeout = .seconds(2)
        let transfer = try await engine.start(request)
        // Wait until a transfer that began later stalls. The first one must not stall while it waits for the test.
        let silent = RawServer { $0.waitForClose() }
        defer { silent.stop() }
        request.url = silent.url
        let error = await thrown { () async throws(TransferError) in try await engine.start(request) }
        #expect(error?.code == .stalled)
        #expect(transfer.progress.received == 0)
        #expect(try await transfer.collect(limit: 300_000) == body)
    }

    @Test("collect refuses a body above its limit")
    func collectLimit() async throws {
        let server = server("HTTP/1.1 200 OK\r\nX: y", testBytes(5000))
        defer { server.stop() }
        let error = await thrown { () async throws(TransferError) in
            try await fetch(engine, localRequest(server.url), limit: 4999)
        }
        #expect(error?.code == .tooLarge)
    }

    @Test("a transfer stalls when its server has been silent for the timeout")
    func stall() async throws {
        let server = server("HTTP/1.1 200 OK\r\nContent-Length: 1000", testBytes(10)) { $0.waitForClose() }
        defer { server.stop() }
        var request = localRequest(server.url)
        // The server's first bytes must arrive within this time.
        request.stallTimeout = .seconds(2)
        let file = file()
        let start = ContinuousClock.now
        let error = await thrown { () async throws(TransferError) in
            try await engine.start(request).receive(into: file, at: 0)
        }
        #expect(error?.code == .stalled)
        #expect(ContinuousClock.now - start >= .seconds(2))
        // The bytes that arrived are kept.
        #expect(file.written == ByteIntervals([0..<10]))
    }

    @Test("a server that never responds to the request is stalled")
    func silent() async throws {
        let server = RawServer { $0.waitForClose() }
        defer { server.stop() }
        var request = localRequest(server.url)
        request.stallTimeout = .milliseconds(400)
        let error = await thrown { () async throws(TransferError) in try await engine.start(request) }
        #expect(error?.code == .stalled)
    }

    @Test("a shortened transfer stops at the new end, and writes nothing beyond it")
    func shorten() async throws {
        let body = testBytes(1_000_000)
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 206 Partial\r\nContent-Length: 1000000\r\n\r\n")
            connection.send(body[..<100_000])
            // The client closes the connection once the test has shortened the transfer.
            guard connection.readRequest() == nil else { return }
        }
        defer { server.stop() }
        let file = file()
        let transfer = try await engine.start(localRequest(server.url))
        transfer.shorten(to: 60_000)
        let end = try await transfer.receive(into: file, at: 0, length: 1_000_000)
        #expect(end == TransferEnd(60_000, .shortened))
        #expect(file.written == ByteIntervals([0..<60_000]))
        #expect(contents(file.descriptor) == Array(body[..<60_000]))
    }

    @Test("a shortened response with a short remainder keeps its connection")
    func shortenedKeepsConnection() async throws {
        let server = RawServer { connection in
            while connection.readRequest() != nil {
                connection.send("HTTP/1.1 206 Partial\r\nContent-Length: 100000\r\n\r\n")
                connection.send(testBytes(100_000))
            }
        }
        defer { server.stop() }
        let transfer = try await engine.start(localRequest(server.url))
        transfer.shorten(to: 50_000)
        let end = try await transfer.receive(into: file(), at: 0, length: 100_000)
        #expect(end.reason == .shortened && end.bytes == 50_000)
        try await eventually { await engine.count == 0 }
        #expect(try await engine.start(localRequest(server.url)).head.isReused)
    }
}
