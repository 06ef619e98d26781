import CHaulOpenSSL
import Glibc

/// A TLS client session that transforms bytes: `send` encrypts for `output`, and `input` decrypts what `receive` was
/// given. It uses no socket, so the connection reads and writes the socket in the same way with and without TLS.
///
/// The server's certificate is always verified, and must contain the server's host name or IP address. OpenSSL keeps
/// one error queue per thread. Each call clears the queue first, so that it does not read another session's error.
final class TLS {
    private let context: OpaquePointer
    private let session: OpaquePointer
    /// Owned by the session.
    private let incoming = BIO_new(BIO_s_mem())
    private let outgoing = BIO_new(BIO_s_mem())
    private(set) var isEstablished = false

    /// - Throws: `.badURL` if a file of `options` cannot be used.
    init(_ options: RedisURL.TLSOptions, host: String) throws(RedisError) {
        context = SSL_CTX_new(TLS_client_method())
        _ = copenssl_require_tls12(context)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_default_verify_paths(context)
        let refusal = Self.load(options, into: context)
        session = SSL_new(context)
        SSL_set_bio(session, incoming, outgoing)
        SSL_set_connect_state(session)
        if let refusal { throw RedisError(.badURL, refusal) }
        var address = in6_addr()
        if inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1 {
            X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host)
        } else {
            SSL_set1_host(session, host)
            _ = copenssl_set_server_name(session, host)
        }
    }

    deinit {
        SSL_free(session)
        SSL_CTX_free(context)
    }

    private static func load(_ options: RedisURL.TLSOptions, into context: OpaquePointer) -> String? {
        if let file = options.authorities, SSL_CTX_load_verify_locations(context, file, nil) != 1 {
            return "the file of certificate authorities, ca=\(file), cannot be used: \(reason(or: "it cannot be read"))"
        }
        guard let certificate = options.certificate else { return nil }
        guard SSL_CTX_use_certificate_chain_file(context, certificate) == 1 else {
            return "the client certificate, cert=\(certificate), cannot be used: \(reason(or: "it cannot be read"))"
        }
        let key = options.key ?? certificate
        guard SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1,
            SSL_CTX_check_private_key(context) == 1
        else { return "the client certificate's key, key=\(key), cannot be used: \(reason(or: "it cannot be read"))" }
        return nil
    }

    /// Starts or continues the handshake. To be called once at the start, and after each `receive` until
    /// `isEstablished`. The bytes for the server are then in `output()`.
    ///
    /// - Throws: `.certificate` if the handshake fails.
    func handshake() throws(RedisError) {
        ERR_clear_error()
        let status = SSL_do_handshake(session)
        if status == 1 {
            isEstablished = true
        } else if SSL_get_error(session, status) != SSL_ERROR_WANT_READ {
            throw failure()
        }
    }

    /// Encrypts bytes for the server. The result is in `output()`.
    func send(_ bytes: [UInt8]) throws(RedisError) {
        guard !bytes.isEmpty else { return }
        ERR_clear_error()
        guard SSL_write(session, bytes, Int32(bytes.count)) == bytes.count else { throw failure() }
    }

    /// Takes encrypted bytes from the server.
    func receive(_ bytes: UnsafeRawBufferPointer) { BIO_write(incoming, bytes.baseAddress, Int32(bytes.count)) }

    /// The received bytes, decrypted.
    func input() throws(RedisError) -> [UInt8] {
        var plain: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            ERR_clear_error()
            let count = SSL_read(session, &buffer, Int32(buffer.count))
            guard count > 0 else {
                let code = SSL_get_error(session, count)
                // ZERO_RETURN: the server closed the session. The end of the connection follows.
                if code == SSL_ERROR_WANT_READ || code == SSL_ERROR_ZERO_RETURN { return plain }
                throw failure()
            }
            plain += buffer.prefix(Int(count))
        }
    }

    /// Removes and returns the encrypted bytes for the server.
    func output() -> [UInt8] {
        let count = Int(copenssl_pending(outgoing))
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, written in
            written = max(0, Int(BIO_read(outgoing, buffer.baseAddress, Int32(count))))
        }
    }

    private func failure() -> RedisError {
        let verdict = SSL_get_verify_result(session)
        guard verdict == X509_V_OK else {
            let why = X509_verify_cert_error_string(verdict).map { String(cString: $0) } ?? "not valid"
            return RedisError(
                .certificate,
                "Redis' certificate is refused: \(why); name its authority with ?ca=FILE, and the host as the certificate does"
            )
        }
        return RedisError(.certificate, "TLS with Redis failed: \(Self.reason(or: "the server does not speak TLS"))")
    }

    /// OpenSSL's reason for the error, or `other` if OpenSSL has none, as after a failed system call.
    private static func reason(or other: String) -> String {
        let code = ERR_get_error()
        ERR_clear_error()
        guard code != 0, let text = ERR_reason_error_string(code) else {
            return other
        }
        return String(cString: text)
    }
}
