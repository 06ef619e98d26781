import Glibc
import HaulContract
import HaulExecutors
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

/// Servers that speak only HTTP/2.
@Suite(
    "HTTP/2",
    .enabled(if: HTTP2Front.isInstalled && ChildProcess.path(of: "openssl") != nil, "nghttpx or openssl is missing"))
struct HTTP2Tests {
    private static let bytes = FileBytes(seed: 141, count: 3_000_000)

    private func engine(_ certificates: Certificates) -> TransferEngine {
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        configuration.certificateAuthorities = certificates.file("ca.pem")
        return TransferEngine(configuration: configuration)
    }

    @Test("the engine offers HTTP/2 to a server that closes at HTTP/1.1, and remembers that")
    func closed() async throws {
        let certificates = try await Certificates()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let front = try await HTTP2Front(before: origin, certificates)
        let engine = engine(certificates)
        let request = localRequest(front.url("/a"))
        for index in 0..<3 {
            let transfer = try await engine.start(request)
            #expect(transfer.head.status == 200)
            #expect(transfer.head.isHTTP2)
            // HTTP/2 is offered at once, on the kept connection.
            #expect(transfer.head.isReused == (index > 0))
            #expect(try await transfer.collect(limit: 3_000_000) == Self.bytes.bytes(0..<Self.bytes.count))
        }
        #expect(origin.requests.count == 3)
    }

    @Test("the engine offers HTTP/2 to a server that sends a TLS alert to HTTP/1.1")
    func alert() async throws {
        let certificates = try await Certificates()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let front = try await HTTP2Front(before: origin, certificates)
        let alerts = Shared(0)
        let server = RawServer { connection in
            // Only a ClientHello that offers "h2" is forwarded.
            let hello = connection.peek(2000)
            guard hello.count > 100, hello.containsBytes([2, UInt8(ascii: "h"), UInt8(ascii: "2")]) else {
                alerts.change { $0 += 1 }
                // A fatal alert, no_application_protocol.
                connection.send([0x15, 3, 3, 0, 2, 2, 120])
                connection.waitForClose()
                return
            }
            connection.pass(to: front.port)
        }
        defer { server.stop() }
        let engine = engine(certificates)
        let request = localRequest("https://127.0.0.1:\(server.port)/a")
        for _ in 0..<2 {
            let transfer = try await engine.start(request)
            #expect(try await transfer.collect(limit: 3_000_000) == Self.bytes.bytes(0..<Self.bytes.count))
        }
        #expect(alerts.value == 1)
    }

    @Test(
        "a body without a length is complete at the end of its stream, and incomplete after a reset",
        arguments: [false, true])
    func unknownLength(_ isCut: Bool) async throws {
        let certificates = try await Certificates()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.framing = .chunked
            if isCut { (reply.cut, reply.end) = (1_000_000, .reset) }
            return reply
        }
        let front = try await HTTP2Front(before: origin, certificates)
        let engine = engine(certificates)
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 2))
        let transfer = try await engine.start(localRequest(front.url("/a")))
        #expect(transfer.head.length == .chunked)
        if isCut {
            let error = await thrown { () async throws(TransferError) in try await transfer.receive(into: file) }
            #expect(error?.code == .incomplete)
        } else {
            #expect(try await transfer.receive(into: file) == TransferEnd(Self.bytes.count, .length))
            #expect(contents(file.descriptor) == Self.bytes.bytes(0..<Self.bytes.count))
        }
    }

    @Test("a transfer that is cancelled in the middle leaves nothing behind for the next one")
    func givenUp() async throws {
        let certificates = try await Certificates()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let front = try await HTTP2Front(before: origin, certificates)
        let engine = engine(certificates)
        for _ in 0..<3 {
            let transfer = try await engine.start(localRequest(front.url("/a")))
            #expect(!transfer.head.isReused)
            transfer.cancel()
            try await eventually { await engine.count == 0 }
        }
        #expect(try await fetch(engine, localRequest(front.url("/a"))) == Self.bytes.bytes(0..<Self.bytes.count))
    }

    @Test(
        "a server that selects HTTP/2 and ends before a head has broken off the response",
        arguments: [
            // GOAWAY with INTERNAL_ERROR, and RST_STREAM with CANCEL (RFC 9113 sections 6.8 and 6.4).
            [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8],
        ] as [[UInt8]])
    func endedBeforeHead(_ frame: [UInt8]) async throws {
        let certificates = try await Certificates()
        let server = RawServer(certificates: certificates) { connection in
            // SETTINGS, and the acknowledgement of the client's SETTINGS, once the client has sent something.
            _ = connection.peek(1)
            connection.send([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0])
            connection.send(frame)
            connection.waitForClose()
        }
        defer { server.stop() }
        let error = await thrown { () async throws(TransferError) in
            try await engine(certificates).start(localRequest("https://127.0.0.1:\(server.port)/"))
        }
        #expect(error?.code == .incomplete)
        #expect(error?.message?.contains("broke the response off") == true)
    }

    @Test("a server that speaks neither protocol is tried twice, and the first failure is reported")
    func neither() async throws {
        let certificates = try await Certificates()
        let server = Shared<OriginServer?>(nil)
        server.value = try OriginServer(certificates: certificates) { _ in
            server.value?.cutConnections()
            return OriginReply()
        }
        let origin = try #require(server.value)
        let error = await thrown { () async throws(TransferError) in
            try await engine(certificates).start(localRequest(origin.url("/")))
        }
        server.value = nil
        #expect(error?.code == .incomplete)
        #expect(origin.connections == 2)
    }
}

extension Array<UInt8> {
    fileprivate func containsBytes(_ part: [UInt8]) -> Bool {
        indices.dropLast(part.count - 1).contains { self[$0..<$0 + part.count].elementsEqual(part) }
    }
}
