import CHaulOpenSSL
package import HaulContract

/// What the operator shows to servers that ask who connects.
package struct ClientCertificate: Sendable, Equatable {
    /// PEM: the certificate, its chain behind it, and perhaps its key.
    package let file: String
    /// PEM; nil: in `file`, too.
    package let key: String?
    /// Only these see it, in lower case; empty: every server that asks.
    package let hosts: Set<String>

    package init(file: String, key: String? = nil, hosts: [String] = []) {
        (self.file, self.key, self.hosts) = (file, key, Set(hosts.map { $0.lowercased() }))
    }

    func isFor(_ url: String) -> Bool {
        hosts.isEmpty || Authority(url).map { hosts.contains($0.host.lowercased()) } ?? false
    }

    /// Throws a sentence if the files hold no certificate and its key.
    package func check() throws(Failure) {
        let context = SSL_CTX_new(TLS_client_method())
        defer {
            ERR_clear_error()
            SSL_CTX_free(context)
        }
        // Nobody is asked for a passphrase.
        SSL_CTX_set_default_passwd_cb(context) { _, _, _, _ in 0 }
        guard SSL_CTX_use_certificate_chain_file(context, file) == 1 else {
            throw Failure(.tls, "the client's certificate, \(file), cannot be used: it must be in PEM")
        }
        guard SSL_CTX_use_PrivateKey_file(context, key ?? file, SSL_FILETYPE_PEM) == 1 else {
            throw Failure(
                .tls,
                "\(key ?? file) does not hold the key of the client's certificate: it must be in PEM, without a passphrase"
            )
        }
    }
}
