import HaulContract
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

@Suite("TLS", .enabled(if: ChildProcess.path(of: "openssl") != nil))
struct TLSTests {
    private let directory = TemporaryDirectory()
    private var certificate: String { directory.file("certificate.pem") }

    /// A server with a self-signed certificate.
    private func start() async throws -> (server: ChildProcess, port: String) {
        let key = directory.file("key.pem")
        let made = try ChildProcess(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                "-out", certificate, "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
            ])
        try #require(try await made.wait() == 0)
        let server = try ChildProcess(
            "openssl", ["s_server", "-accept", "127.0.0.1:0", "-cert", certificate, "-key", key, "-www"])
        try await eventually { server.standardOutput.contains("ACCEPT 127.0.0.1:") }
        let port = server.standardOutput.split(separator: "ACCEPT 127.0.0.1:").last!.prefix { $0.isNumber }
        return (server, String(port))
    }

    private func engine(authorities: String? = nil) -> TransferEngine {
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        configuration.certificateAuthorities = authorities
        return TransferEngine(configuration: configuration)
    }

    @Test("a certificate that cannot be verified is refused, unless the operator trusts it")
    func verified() async throws {
        let (server, port) = try await start()
        let request = localRequest("https://127.0.0.1:\(port)/")
        let refused = await thrown { () async throws(TransferError) in try await fetch(engine(), request) }
        #expect(refused?.code == .tls)
        #expect(refused?.message?.contains("certificate") == true)
        #expect(try await !fetch(engine(authorities: certificate), request).isEmpty)
        server.kill(9)
    }

    @Test("a trusted certificate of another host is refused")
    func otherHost() async throws {
        let (server, port) = try await start()
        let request = localRequest("https://localhost:\(port)/")
        let error = await thrown { () async throws(TransferError) in
            try await fetch(engine(authorities: certificate), request)
        }
        #expect(error?.code == .tls)
        server.kill(9)
    }

    @Test("a server that does not speak TLS is a TLS error")
    func plain() async throws {
        let server = RawServer { connection in
            connection.send("HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.waitForClose()
        }
        defer { server.stop() }
        let error = await thrown { () async throws(TransferError) in
            try await fetch(engine(), localRequest("https://127.0.0.1:\(server.port)/"))
        }
        #expect(error?.code == .tls)
    }
}
