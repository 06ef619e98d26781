import Glibc

/// nghttpx (Debian's nghttp2-proxy) in front of a plain origin. It speaks only HTTP/2 over TLS. If a client offers only
/// HTTP/1.1, nghttpx closes the connection without a response.
package final class HTTP2Front: Sendable {
    package static let isInstalled = ChildProcess.path(of: "nghttpx") != nil

    package let port: Int
    private let process: ChildProcess

    package init(before origin: OriginServer, _ certificates: Certificates) async throws {
        let (descriptor, port) = try LoopbackSocket.bind()
        close(descriptor)
        self.port = port
        process = try ChildProcess(
            "nghttpx",
            [
                "--conf=/dev/null", "--frontend=127.0.0.1,\(port)", "--backend=127.0.0.1,\(origin.port)",
                "--npn-list=h2",
                "--workers=1", "--single-process", "--no-ocsp", certificates.file("server.key"),
                certificates.file("server.pem"),
            ])
        let process = process
        try await eventually("nghttpx to listen") {
            guard process.isRunning else {
                throw ChildProcess.Missing(description: "nghttpx ended: \(process.standardError)")
            }
            guard let probe = try? LoopbackSocket.connect(.v4, port: port) else { return false }
            close(probe)
            return true
        }
    }

    deinit { process.kill(SIGKILL) }

    package func url(_ path: String) -> String { "https://127.0.0.1:\(port)\(path)" }
}
