import CHaulOpenSSL
package import HaulContract

/// The client certificate that we send to servers that request one.
package struct ClientCertificate: Sendable, Equatable {
    /// PEM: the certificate, followed by its chain, and possibly by its key.
    package let file: String
    /// PEM; nil if the key is in `file`.
    package let key: String?
    /// The only hosts that get the certificate, in lower case. If empty, every server that requests it gets it.
    package let hosts: Set<String>

    package init(file: String, key: String? = nil, hosts: [String] = []) {
        (self.file, self.key, self.hosts) = (file, key, Set(hosts.map { $0.lowercased() }))
    }

    func isFor(_ url: String) -> Bool {
        hosts.isEmpty || Authority(url).map { hosts.contains($0.host.lowercased()) } ?? false
    }

    /// Checks that the files hold a certificate and its key.
    ///
    /// - Throws: `tls` with a sentence for the operator, if they do not.
    package func check() throws(Failure) {
        let context = SSL_CTX_new(TLS_client_method())
        defer {
            ERR_clear_error()
            SSL_CTX_free(context)
        }
        // A key with a passphrase is refused, because a worker has no terminal at which to type it.
        SSL_CTX_set_default_passwd_cb(context) { _, _, _, _ in 0 }
        for (file, what) in [(file, "client's certificate"), (key ?? file, "key of the client's certificate")] {
            guard let why = TransferError.unreadable(file) else { continue }
            throw Failure(.tls, "the \(what), \(file), cannot be read: \(why)")
        }
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
