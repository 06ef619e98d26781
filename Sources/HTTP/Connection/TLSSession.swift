import CHaulCurl
import CHaulOpenSSL

/// What libcurl does not report about a TLS connection. The object is attached to OpenSSL's session and released with
/// it.
final class TLSSession {
    /// Whether the server has sent the alert close_notify. If a body ends with the connection, only this alert shows
    /// that it is complete and was not truncated (RFC 9112 section 9.8). libcurl accepts both.
    private(set) var hasReceivedCloseNotify = false
    /// Whether the server has selected a protocol by ALPN.
    private(set) var hasNegotiatedProtocol = false
    private(set) var isHTTP2 = false

    /// The session of the connection that `easy` uses now; nil if the connection has no TLS.
    static func of(_ easy: EasyHandle) -> TLSSession? {
        guard let session = raw(of: easy) else { return nil }
        if let known = SSL_get_ex_data(session, index) { return Unmanaged.fromOpaque(known).takeUnretainedValue() }
        let own = TLSSession()
        var (name, length): (UnsafePointer<UInt8>?, UInt32) = (nil, 0)
        SSL_get0_alpn_selected(session, &name, &length)
        own.hasNegotiatedProtocol = length > 0
        own.isHTTP2 = UnsafeBufferPointer(start: name, count: Int(length)).elementsEqual("h2".utf8)
        let held = Unmanaged.passRetained(own)
        guard SSL_set_ex_data(session, index, held.toOpaque()) == 1 else {
            held.release()
            return nil
        }
        SSL_set_info_callback(session) { session, event, alert in
            guard event == SSL_CB_READ_ALERT, alert & 0xFF == SSL_AD_CLOSE_NOTIFY,
                let known = SSL_get_ex_data(session, TLSSession.index)
            else { return }
            Unmanaged<TLSSession>.fromOpaque(known).takeUnretainedValue().hasReceivedCloseNotify = true
        }
        return own
    }

    /// Whether OpenSSL has read bytes from the socket that libcurl has not read from OpenSSL yet.
    static func hasUnreadInput(_ easy: EasyHandle) -> Bool { raw(of: easy).map { SSL_has_pending($0) == 1 } ?? false }

    /// The version of TLS; nil if the connection does not use it.
    static func version(of easy: EasyHandle) -> String? {
        raw(of: easy).flatMap { SSL_get_version($0) }.map { String(cString: $0) }
    }

    private static func raw(of easy: EasyHandle) -> OpaquePointer? {
        guard let info = ccurl_get_tls(easy.raw), info.pointee.backend == CURLSSLBACKEND_OPENSSL else { return nil }
        return info.pointee.internals.map { OpaquePointer($0) }
    }

    private static let index = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, nil, nil, nil) { _, held, _, _, _, _ in
        if let held { Unmanaged<TLSSession>.fromOpaque(held).release() }
    }
}
