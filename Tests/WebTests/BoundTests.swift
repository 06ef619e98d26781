import Foundation
import HaulHTTPServer
import HaulTestSupport
import HaulWeb
import Testing

/// What the server limits for its clients, over real sockets.
@Suite struct BoundTests {
    private static let request = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"

    private func serve(
        _ change: (inout ServerLimits) -> Void = { _ in },
        _ handler: @escaping @Sendable (ServerRequest) async -> ServerResponse = {
            ServerResponse(200, "text/plain", "you asked for \($0.path)")
        }
    ) async throws -> (HTTPServer, ListenAddress) {
        var limits = ServerLimits()
        change(&limits)
        let server = HTTPServer(limits: limits) { .respond(await handler($0)) }
        return (server, try await server.listen(on: ListenAddress("127.0.0.1:0")!))
    }

    @Test("a connection serves several requests") func keepAlive() async throws {
        let (server, address) = try await serve()
        let client = try RawClient(address)
        for _ in 0..<3 {
            await client.send(Self.request)
            #expect(await client.read(until: "/hello").hasPrefix("HTTP/1.1 200 OK\r\n"))
        }
        #expect(await server.load.connections == 1)
        await client.send("GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        #expect(await client.read().hasSuffix("you asked for /last"))
        await server.stop()
    }

    @Test("pipelined requests are answered in order") func pipelining() async throws {
        let (server, address) = try await serve()
        let client = try RawClient(address)
        let last = "GET /c HTTP/1.0\r\n\r\n"
        await client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n" + last)
        let responses = await client.read()
        let paths = ["/a", "/b", "/c"].compactMap { responses.range(of: "you asked for \($0)")?.lowerBound }
        #expect(paths.count == 3 && paths == paths.sorted())
        await server.stop()
    }

    @Test("a head of ten megabytes is refused after its first kilobytes") func largeHead() async throws {
        let (server, address) = try await serve()
        let client = try RawClient(address)
        await client.send("GET / HTTP/1.1\r\nHost: h\r\nA: ")
        await client.send([UInt8](repeating: 97, count: 10 << 20))
        #expect(await client.read().hasPrefix("HTTP/1.1 431 "))
        try await eventually("the connection to be closed") { await server.load.connections == 0 }
        await server.stop()
    }

    @Test("a body that is too large is refused") func bodies() async throws {
        let (server, address) = try await serve { $0.body = 100 }
        let client = try RawClient(address)
        await client.send(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n" + String(repeating: "a", count: 101))
        #expect(await client.read().hasPrefix("HTTP/1.1 413 "))
        await server.stop()
    }

    @Test("five hundred slow clients do not delay another client") func slowClients() async throws {
        let (server, address) = try await serve { limits in
            limits.headTime = .seconds(10)
            limits.connections = 520
        }
        var slow: [RawClient] = []
        for _ in 0..<500 { slow.append(try RawClient(address)) }
        for client in slow { await client.send("GET /slow HTTP/1.1\r\nHo") }
        try await eventually("all slow clients to be connected") { await server.load.connections >= 500 }
        let client = try RawClient(address)
        await client.send(Self.request)
        #expect(await client.read(until: "/hello").hasPrefix("HTTP/1.1 200 "))
        try await eventually("the slow clients to be disconnected") { slow.allSatisfy(\.isClosed) }
        await client.send(Self.request)
        #expect(await client.read(until: "/hello").hasPrefix("HTTP/1.1 200 "))
        await server.stop()
    }

    @Test("a connection above the limit replaces the one that was idle longest") func idleConnections() async throws {
        let (server, address) = try await serve { $0.connections = 3 }
        var clients: [RawClient] = []
        for _ in 0..<3 {
            let client = try RawClient(address)
            await client.send(Self.request)
            _ = await client.read(until: "/hello")
            clients.append(client)
        }
        let late = try RawClient(address)
        await late.send(Self.request)
        #expect(await late.read(until: "/hello").hasPrefix("HTTP/1.1 200 "))
        #expect(clients.map(\.isClosed) == [true, false, false])
        await server.stop()
    }

    @Test("a client that does not read its response is disconnected") func unreadResponse() async throws {
        let body = [UInt8](repeating: 97, count: 32 << 20)
        let (server, address) = try await serve {
            $0.writeTime = .milliseconds(300)
        } _: { _ in
            ServerResponse(200, body: .bytes(body))
        }
        let client = try RawClient(address)
        await client.send(Self.request)
        try await eventually("the response to begin") { await server.load.connections == 1 }
        try await eventually("the client to be disconnected") { await server.load.connections == 0 }
        await server.stop()
    }

    @Test("a stream ends with its client, and the number of streams is limited") func streams() async throws {
        let ended = Shared(0)
        let (server, address) = try await serve {
            $0.streams = 1
        } _: { _ in
            ServerResponse(
                200,
                body: .stream { writer in
                    defer { ended.change { $0 += 1 } }
                    for number in 0..<10_000 {
                        try await writer.send("piece \(number)\n")
                        try await Task.sleep(for: .milliseconds(5))
                    }
                })
        }
        var client: RawClient? = try RawClient(address)
        await client?.send(Self.request)
        #expect(await client?.read(until: "piece 3").hasPrefix("HTTP/1.1 200 ") == true)
        let second = try RawClient(address)
        await second.send(Self.request)
        #expect(await second.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 503 "))
        client = nil
        try await eventually("the stream to end") { ended.value == 1 }
        await server.stop()
    }

    @Test("a handler is cancelled when its client disconnects") func cancellation() async throws {
        let (wasAsked, wasCancelled) = (Shared(false), Shared(false))
        let (server, address) = try await serve {
            $0.lingerTime = .milliseconds(100)
        } _: { _ in
            wasAsked.value = true
            try? await Task.sleep(for: .seconds(60))
            wasCancelled.value = Task.isCancelled
            return ServerResponse(200)
        }
        var client: RawClient? = try RawClient(address)
        await client?.send(Self.request)
        // A reset discards what the server has not read yet.
        try await eventually("the handler to have the request") { wasAsked.value }
        client?.reset()
        client = nil
        try await eventually("the handler to be cancelled") { wasCancelled.value }
        await server.stop()
    }

    @Test("a violation of HTTP is answered in the JSON form of all errors") func violations() async throws {
        let fixture = try await WebFixture()
        let (places, found) = AsyncStream<ListenAddress>.makeStream()
        let run = Task { try await fixture.web.run { for place in $0 { found.yield(place) } } }
        defer { run.cancel() }
        let address = try #require(await places.first { _ in true })
        let client = try RawClient(address)
        await client.send(
            "POST /api/queues/default/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        let response = await client.read()
        #expect(
            response.hasPrefix("HTTP/1.1 411 ") && response.contains("Content-Type: application/json"), "\(response)")
        #expect(
            response.contains("{\"error\":\"http\",\"message\":")
                && response.contains("X-Content-Type-Options: nosniff"))
    }
}
