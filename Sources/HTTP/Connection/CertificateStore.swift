import CHaulCurl
import CHaulOpenSSL
import Glibc
package import HaulContract

/// The certificate authorities that servers are verified against.
package enum CertificateStore {
    /// Checks a file of certificate authorities.
    ///
    /// - Throws: `tls` with a sentence for the operator, if `file` holds no certificates.
    package static func check(_ file: String) throws(Failure) {
        let context = SSL_CTX_new(TLS_client_method())
        defer {
            ERR_clear_error()
            SSL_CTX_free(context)
        }
        if let why = TransferError.unreadable(file) {
            throw Failure(.tls, "the file of certificate authorities, \(file), cannot be read: \(why)")
        }
        guard SSL_CTX_load_verify_locations(context, file, nil) == 1 else {
            throw Failure(
                .tls,
                "the file of certificate authorities, \(file), cannot be used: it has no certificate in PEM format")
        }
    }

    /// Whether this system has any certificate authorities where libcurl looks for them.
    package static var isInstalled: Bool {
        let version = curl_version_info(CURLVERSION_SEVENTH).pointee
        return [version.cainfo, version.capath].contains { path in path.map { access($0, R_OK) == 0 } ?? false }
    }
}
