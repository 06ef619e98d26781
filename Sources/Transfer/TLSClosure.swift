import CCurl
import COpenSSL

/// Whether the server has ended its side of a TLS connection by an alert, close_notify.
///
/// Where the end of the connection is all that tells a body's end, only this tells a whole body from one that was cut, by
/// whomever (RFC 9112 section 9.8). libcurl takes both for whole. It belongs to the session, and is let go with it.
final class TLSClosure {
    private(set) var isNotified = false

    /// The closure of the connection that `easy` uses at present; nil if that has no TLS.
    static func of(_ easy: EasyHandle) -> TLSClosure? {
        guard let info = ccurl_get_tls(easy.raw), info.pointee.backend == CURLSSLBACKEND_OPENSSL,
            let session = info.pointee.internals.map({ OpaquePointer($0) })
        else { return nil }
        if let known = SSL_get_ex_data(session, index) { return Unmanaged.fromOpaque(known).takeUnretainedValue() }
        let closure = TLSClosure()
        let held = Unmanaged.passRetained(closure)
        guard SSL_set_ex_data(session, index, held.toOpaque()) == 1 else {
            held.release()
            return nil
        }
        SSL_set_info_callback(session) { session, event, alert in
            guard event == SSL_CB_READ_ALERT, alert & 0xFF == SSL_AD_CLOSE_NOTIFY,
                let known = SSL_get_ex_data(session, TLSClosure.index)
            else { return }
            Unmanaged<TLSClosure>.fromOpaque(known).takeUnretainedValue().isNotified = true
        }
        return closure
    }

    private static let index = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, nil, nil, nil) { _, held, _, _, _, _ in
        if let held { Unmanaged<TLSClosure>.fromOpaque(held).release() }
    }
}
