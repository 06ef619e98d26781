import CHaulOpenSSL
import Glibc

/// The TLS context of a server, with its certificate and key from `Certificates`.
final class ServerTLS: @unchecked Sendable {
    fileprivate let context: OpaquePointer

    /// - Parameters:
    ///     - requiresCertificate: Whether the server serves only clients with a certificate of the same authority.
    ///   - agreesHTTP2: Whether the server selects HTTP/2 if the client offers it (ALPN).
    init(_ certificates: Certificates, requiresCertificate: Bool = false, agreesHTTP2: Bool = false) {
        context = SSL_CTX_new(TLS_server_method())
        SSL_CTX_use_certificate_chain_file(context, certificates.file("server.pem"))
        SSL_CTX_use_PrivateKey_file(context, certificates.file("server.key"), SSL_FILETYPE_PEM)
        if requiresCertificate {
            SSL_CTX_load_verify_locations(context, certificates.file("ca.pem"), nil)
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        }
        guard agreesHTTP2 else { return }
        let agree: SSL_CTX_alpn_select_cb_func = { _, chosen, length, offered, offeredLength, _ in
            let names = UnsafeBufferPointer(start: offered, count: Int(offeredLength))
            var index = 0
            while index < names.count {
                let (name, count) = (index + 1, Int(names[index]))
                if names[name..<name + count].elementsEqual("h2".utf8) {
                    chosen!.pointee = offered! + name
                    length!.pointee = UInt8(count)
                    return SSL_TLSEXT_ERR_OK
                }
                index = name + count
            }
            return SSL_TLSEXT_ERR_NOACK
        }
        SSL_CTX_set_alpn_select_cb(context, agree, nil)
    }

    deinit { SSL_CTX_free(context) }
}

/// An accepted connection, plain or with TLS, on its own thread. All calls block.
final class OriginConnection {
    private let descriptor: Int32
    private var session: OpaquePointer?

    /// nil if the TLS handshake fails. The caller still closes the descriptor.
    init?(_ descriptor: Int32, _ tls: ServerTLS?) {
        self.descriptor = descriptor
        guard let tls else { return }
        // OpenSSL writes without MSG_NOSIGNAL, so SIGPIPE is blocked.
        var pipe = sigset_t()
        sigemptyset(&pipe)
        sigaddset(&pipe, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &pipe, nil)
        session = SSL_new(tls.context)
        SSL_set_fd(session, descriptor)
        guard SSL_accept(session) == 1 else {
            // If unread bytes were left, close would send a RST. The RST would overtake the alert with the reason.
            shutdown(descriptor, Int32(SHUT_WR))
            var byte: UInt8 = 0
            while recv(descriptor, &byte, 1, 0) > 0 {}
            return nil
        }
    }

    deinit { SSL_free(session) }

    /// Returns false at the end of the connection.
    func receive(_ byte: inout UInt8) -> Bool {
        session.map { SSL_read($0, &byte, 1) == 1 } ?? (recv(descriptor, &byte, 1, 0) == 1)
    }

    /// Returns at most `count` bytes; none at the end of the connection.
    func receive(upTo count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, received in
            received = max(
                0,
                session.map { Int(SSL_read($0, buffer.baseAddress!, Int32(count))) }
                    ?? recv(descriptor, buffer.baseAddress!, count, 0))
        }
    }

    /// Whether TLS has decrypted bytes that have not been read. poll does not report them.
    var hasPending: Bool { session.map { SSL_pending($0) > 0 } ?? false }

    func send(_ bytes: [UInt8]) -> Bool {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                let (start, rest) = (buffer.baseAddress! + done, buffer.count - done)
                return session.map { Int(SSL_write($0, start, Int32(rest))) }
                    ?? Glibc.send(descriptor, start, rest, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            done += count
        }
        return true
    }

    /// Sends TLS' close_notify, so that the client can distinguish the intended end from a lost connection.
    func finish() { if let session { SSL_shutdown(session) } }

    /// Makes the following close send a RST instead of a FIN. A RST overtakes bytes in flight, so this waits until they
    /// have arrived.
    func reset() {
        LoopbackSocket.waitUntilReceived(descriptor)
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
    }
}
