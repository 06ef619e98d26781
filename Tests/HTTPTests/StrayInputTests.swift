import HaulContract
import HaulTestSupport
import Testing

@testable import HaulHTTP

extension TransferEngine {
    /// Whether a connection has unread bytes.
    fileprivate func hasInput() -> Bool { multi.connections.sockets.contains(where: ConnectionSockets.hasInput) }
}

/// Responses without a request, on connections that are kept for later requests.
@Suite struct StrayInputTests {
    private static let stray = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxyz"

    private func engine(_ certificates: Certificates?, proxy: String? = nil) -> TransferEngine {
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        configuration.certificateAuthorities = certificates?.file("ca.pem")
        configuration.proxy = proxy
        return TransferEngine(configuration: configuration)
    }

    @Test(
        "a second response to one request is not used for the next request", arguments: [false, true], ["GET", "POST"])
    func stray(_ isTLS: Bool, _ method: String) async throws {
        let certificates = try await isTLS ? Certificates() : nil
        let latch = Latch()
        let origin = try OriginServer(certificates: certificates) { request in
            var reply = OriginReply(body: Array(request.path.utf8))
            if request.path == "/first" { reply.stray = (latch, Self.stray) }
            return reply
        }
        let engine = engine(certificates)
        #expect(try await fetch(engine, localRequest(origin.url("/first"))) == Array("/first".utf8))
        latch.open()
        try await eventually("the second response to be there") { await engine.hasInput() }
        var second = localRequest(origin.url("/second"))
        second.method = method
        #expect(try await fetch(engine, second) == Array("/second".utf8))
        #expect(origin.connections == 2)
        // The new connection is kept as usual.
        #expect(try await fetch(engine, localRequest(origin.url("/third"))) == Array("/third".utf8))
        #expect(origin.connections == 2)
        #expect(origin.requests.map(\.path) == ["/first", "/second", "/third"])
    }

    @Test("behind a proxy, a second response of one host is not used for another host") func proxied() async throws {
        let latch = Latch()
        let proxy = try OriginServer { request in
            var reply = OriginReply(body: Array(request.path.utf8))
            if request.path.hasSuffix("/first") { reply.stray = (latch, Self.stray) }
            return reply
        }
        let engine = engine(nil, proxy: proxy.url(""))
        #expect(
            try await fetch(engine, localRequest("http://127.0.0.2/first")) == Array("http://127.0.0.2/first".utf8))
        latch.open()
        try await eventually("the second response to be there") { await engine.hasInput() }
        #expect(
            try await fetch(engine, localRequest("http://127.0.0.3/second")) == Array("http://127.0.0.3/second".utf8))
        #expect(proxy.connections == 2)
    }

    @Test("TLS' own messages, such as session tickets, cost no connection") func tickets() async throws {
        let certificates = try await Certificates()
        let origin = try OriginServer(certificates: certificates) { OriginReply(body: Array($0.path.utf8)) }
        let engine = engine(certificates)
        for number in 0..<20 {
            #expect(try await fetch(engine, localRequest(origin.url("/\(number)"))) == Array("/\(number)".utf8))
        }
        #expect(origin.connections == 1)
    }
}
