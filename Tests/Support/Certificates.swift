/// The certificates of a test authority, a server (127.0.0.1, ::1 and the name `redis.test`) and a client, made by
/// openssl.
package struct Certificates: Sendable {
    private let directory = TemporaryDirectory()

    package init() async throws {
        try await openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=Test authority", "-keyout", file("ca.key"), "-out", file("ca.pem"))
        for (name, extension_) in [
            ("server", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:redis.test"), ("client", "keyUsage=digitalSignature"),
        ] {
            try await openssl(
                "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=\(name)",
                "-addext", extension_, "-keyout", file("\(name).key"), "-out", file("\(name).csr"))
            try await openssl(
                "x509", "-req", "-in", file("\(name).csr"), "-CA", file("ca.pem"), "-CAkey", file("ca.key"),
                "-CAcreateserial", "-copy_extensions", "copyall", "-days", "2", "-out", file("\(name).pem"))
        }
    }

    package func file(_ name: String) -> String { directory.file(name) }

    private func openssl(_ arguments: String...) async throws {
        let process = try ChildProcess("openssl", arguments)
        guard try await process.wait() == 0 else {
            throw ChildProcess.Missing(description: "openssl failed: \(process.standardError)")
        }
    }
}
