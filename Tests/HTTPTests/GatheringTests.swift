import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

/// Slow bodies, whose bytes collect in the socket before they are read. In most tests they may collect for an hour. So
/// bytes that must be read at once would never be read if they were left to collect.
@Suite("Slow bodies")
struct GatheringTests {
    private static let hour = Duration.seconds(3600)

    /// Responds to each request with a body of `length` bytes. Sends single bytes until the client's socket has a
    /// low-water mark. Then `script` sends the remainder. It gets the number of bytes sent so far.
    private static func server(
        length: Int, _ script: @escaping @Sendable (RawConnection, _ trickled: Int) -> Void
    ) -> RawServer {
        let port = Shared(0)
        let server = RawServer { connection in
            while connection.readRequest() != nil {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n")
                var trickled = 0
                while mark(ofPort: port.value) == 1, connection.send([7]) {
                    trickled += 1
                    usleep(20_000)
                }
                script(connection, trickled)
            }
        }
        port.value = server.port
        return server
    }

    /// The same, with `count` bytes after the single ones, and then `end`. `trickled` gets the number of the single
    /// bytes.
    private static func server(
        sending count: Int, _ end: @escaping @Sendable (RawConnection) -> Void
    ) -> (RawServer, trickled: Shared<Int>) {
        let box = Shared(0)
        let server = server(length: 200_000) { connection, trickled in
            box.value = trickled
            connection.send(testBytes(count))
            end(connection)
        }
        return (server, box)
    }

    /// SO_RCVLOWAT of this process' socket that is connected to this port.
    private static func mark(ofPort port: Int) -> Int? {
        for descriptor in 3..<4096 as Range<Int32> {
            var peer = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isConnected = withUnsafeMutablePointer(to: &peer) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) == 0 }
            }
            guard isConnected, peer.sin_family == sa_family_t(AF_INET), Int(UInt16(bigEndian: peer.sin_port)) == port
            else { continue }
            var mark: Int32 = 0
            length = 4
            getsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &mark, &length)
            return Int(mark)
        }
        return nil
    }

    private func engine(patience: Duration, authorities: String? = nil) -> TransferEngine {
        var configuration = TransferEngine.Configuration()
        configuration.policy = .restricted(allowed: [Network("127.0.0.0/8")!])
        configuration.patience = patience
        configuration.certificateAuthorities = authorities
        return TransferEngine(configuration: configuration)
    }

    private func receive(
        _ engine: TransferEngine, _ url: String, stallTimeout: Duration = .seconds(20)
    ) async throws -> (transfer: Transfer, result: Task<TransferEnd, any Error>) {
        var request = localRequest(url)
        request.stallTimeout = stallTimeout
        let transfer = try await engine.start(request)
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 2))
        return (transfer, Task { try await transfer.receive(into: file) })
    }

    private func failure(_ result: Task<TransferEnd, any Error>) async -> ErrorCode? {
        do { _ = try await result.value } catch { return (error as? TransferError)?.code }
        return nil
    }

    @Test("forty pieces wake no thread while their bytes are below the low-water mark")
    func turns() async throws {
        let (length, pieces) = (300_000, 40)
        let trickled = Shared<Int?>(nil)
        let isSent = Shared(false)
        let (go, rest) = (Latch(), Latch())
        let server = Self.server(length: length) { connection, count in
            trickled.value = count
            go.wait()
            for _ in 0..<pieces {
                connection.send(testBytes(1000))
                connection.waitUntilReceived()
            }
            isSent.value = true
            rest.wait()
            connection.send(testBytes(length - count - pieces * 1000))
        }
        defer { server.stop() }
        let engine = engine(patience: Self.hour)
        let (transfer, result) = try await receive(engine, server.url)
        try await eventually { trickled.value != nil }
        let before = await engine.turns
        go.open()
        try await eventually { isSent.value }
        #expect(await engine.turns == before)
        #expect(transfer.progress.received == Int64(trickled.value!))
        rest.open()
        #expect(try await result.value == TransferEnd(Int64(length), .length))
    }

    @Test("the last bytes are read at once, and the next response on the connection is, too")
    func lastBytes() async throws {
        let length = 200_000
        let server = Self.server(length: length) { connection, count in
            var left = length - count
            while left > 0 {
                let piece = min(left, 1000)
                guard connection.send(testBytes(piece)) else { return }
                left -= piece
            }
        }
        defer { server.stop() }
        let engine = engine(patience: Self.hour)
        for index in 0..<2 {
            let (transfer, result) = try await receive(engine, server.url)
            #expect(transfer.head.isReused == (index == 1))
            try await eventually { transfer.progress.received == Int64(length) }
            #expect(try await result.value == TransferEnd(Int64(length), .length))
        }
    }

    @Test("the collected bytes of a connection that ends are read at once")
    func cut() async throws {
        let (server, trickled) = Self.server(sending: 5000) { $0.close() }
        defer { server.stop() }
        let (transfer, result) = try await receive(engine(patience: Self.hour), server.url)
        #expect(await failure(result) == .incomplete)
        #expect(transfer.progress.received == Int64(trickled.value + 5000))
    }

    @Test("a transfer that is shortened to collected bytes ends at once")
    func shortened() async throws {
        let trickled = Shared<Int?>(nil)
        let server = Self.server(length: 2_000_000) { connection, count in
            connection.send(testBytes(20_000))
            connection.waitUntilReceived()
            trickled.value = count
            connection.waitForClose()
        }
        defer { server.stop() }
        let (transfer, result) = try await receive(engine(patience: Self.hour), server.url)
        try await eventually { trickled.value != nil }
        let end = Int64(trickled.value! + 10_000)
        transfer.shorten(to: end)
        try await eventually { transfer.progress.received == end }
        #expect(try await result.value == TransferEnd(end, .shortened))
    }

    @Test("a body that slows down is still read, and does not count as stalled")
    func slower() async throws {
        let trickled = Shared(0)
        let server = Self.server(length: 200_000) { connection, count in
            trickled.value = count
            for _ in 0..<12 {
                connection.send([7])
                usleep(250_000)
            }
            connection.waitForClose()
        }
        defer { server.stop() }
        let (transfer, result) = try await receive(
            engine(patience: .milliseconds(500)), server.url, stallTimeout: .milliseconds(2500))
        try await eventually { trickled.value > 0 && transfer.progress.received == Int64(trickled.value + 12) }
        // The stall that follows is detected.
        #expect(await failure(result) == .stalled)
    }

    @Test("a body that stops is stalled, and its collected bytes are read")
    func stalled() async throws {
        let (server, trickled) = Self.server(sending: 1000) { $0.waitForClose() }
        defer { server.stop() }
        // The stall limit is shorter than the bytes may collect, and longer than a slow machine delays the server.
        let (transfer, result) = try await receive(
            engine(patience: .seconds(4)), server.url, stallTimeout: .seconds(2))
        #expect(await failure(result) == .stalled)
        #expect(transfer.progress.received == Int64(trickled.value + 1000))
    }

    @Test("the last bytes of a TLS body are read at once, although TLS buffers whole records")
    func tls() async throws {
        let bytes = FileBytes(seed: 5, count: 250_000)
        let certificates = try await Certificates()
        let origin = try OriginServer(certificates: certificates) { request in
            var reply = OriginReply.file(bytes, to: request)
            reply.pace = 100_000
            return reply
        }
        let engine = engine(patience: Self.hour, authorities: certificates.file("ca.pem"))
        let (transfer, result) = try await receive(engine, origin.url("/a"))
        try await eventually { transfer.progress.received == bytes.count }
        #expect(try await result.value == TransferEnd(bytes.count, .length))
    }
}
