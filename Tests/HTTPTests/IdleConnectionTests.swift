import Glibc
import HaulContract
import HaulExecutors
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulHTTP

/// Servers that serve one connection at a time, and keep it for as long as the client does.
@Suite struct IdleConnectionTests {
    /// Serves each connection on the accepting thread, so other clients wait meanwhile. Each body has `length` bytes.
    /// The first one is held at `latch`.
    private final class OneByOne: Sendable {
        private let listener: LoopbackListener
        let port: Int
        let connections = Shared(0)

        init(length: Int, holding latch: Latch) throws {
            listener = try LoopbackListener()
            port = listener.port
            let (connections, isFirst) = (connections, Shared(true))
            listener.start(name: "one-by-one") { descriptor in
                connections.change { $0 += 1 }
                let connection = RawConnection(descriptor: descriptor)
                while connection.readRequest() != nil {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n")
                    if isFirst.value {
                        isFirst.value = false
                        latch.wait()
                    }
                    connection.send(testBytes(length))
                }
                connection.close()
            }
        }

        deinit { listener.stop() }
    }

    @Test("a second connection is served soon after the first one becomes idle")
    func inTheWay() async throws {
        let latch = Latch()
        let server = try OneByOne(length: 1000, holding: latch)
        let engine = localEngine()
        let request = localRequest("http://127.0.0.1:\(server.port)/")
        let first = try await engine.start(request)
        // The second transfer cannot use the first one's connection. Its own is not accepted while the first one is
        // kept.
        let second = Task { try await fetch(engine, request) }
        try await eventually("the second to be in progress") { await engine.count == 2 }
        latch.open()
        _ = try await first.collect(limit: 1000)
        #expect(try await second.value == testBytes(1000))
        #expect(server.connections.value == 2)
    }

    @Test("an idle connection is closed soon, so that the server can serve other clients")
    func ended() async throws {
        let hasEnded = Shared(false)
        let server = RawServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            connection.waitForClose()
            hasEnded.value = true
        }
        defer { server.stop() }
        let engine = localEngine()
        #expect(try await fetch(engine, localRequest(server.url)) == Array("ok".utf8))
        try await eventually("the server to see the end") { hasEnded.value }
        // A closed connection is not reused.
        #expect(try await fetch(engine, localRequest(server.url)) == Array("ok".utf8))
        #expect(server.connections == 2)
    }

    @Test("a connection in use does not count as idle while its transfer is paused")
    func paused() async throws {
        let server = RawServer { connection in
            while connection.readRequest() != nil {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
                connection.send(testBytes(5000))
            }
        }
        defer { server.stop() }
        let engine = localEngine()
        for _ in 0..<2 {
            // The second transfer uses a connection that another transfer has opened.
            let transfer = try await engine.start(localRequest(server.url))
            let now = monotonicNanoseconds()
            for time in [now, now + 2 * ConnectionSockets.idleLimit] { await engine.maintainConnections(time) }
            #expect(try await transfer.collect(limit: 5000) == testBytes(5000))
        }
        #expect(server.connections == 1)
    }
}
