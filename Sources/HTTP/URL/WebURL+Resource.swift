import HaulContract

extension WebURL {
    /// Identifies the resource that a response from here belongs to: 16 hexadecimal digits, which reveal no secret.
    ///
    /// A validator distinguishes versions of one resource, and says nothing about another resource (RFC 9110 section
    /// 8.8.3). Host, port, path and query make the resource. Parameters that sign the query are left out, because they
    /// differ each time that the same URL is signed.
    package var resource: String {
        let parameters = (query ?? "").split(separator: "&", omittingEmptySubsequences: false)
        let names = parameters.map { $0.prefix { $0 != "=" }.lowercased() }
        let isShared = names.contains("sig")
        let named = zip(names, parameters).filter { name, _ in
            !Self.signing.contains(name) && !name.hasPrefix("x-") && !(isShared && Self.sharing.contains(name))
        }
        let text = "\(hostAndPort)\(path)?" + named.map { String($0.1) }.joined(separator: "&")
        return String(Job.Checksum.Algorithm.sha256.hexadecimal(of: text).prefix(16))
    }

    /// `SourcedRecord.sourceResource` of bytes from this URL: its resource, if its query is a part of that. A record shows
    /// the rest of the URL itself.
    package var sourceResource: String { query == nil ? "" : resource }

    /// Parameters of signed URLs: those of Amazon (version 2; version 4 and others begin with "x-"), CloudFront,
    /// Google, Alibaba and Akamai, and the usual names in URLs that people sign themselves.
    private static let signing: Set<String> = [
        "signature", "sig", "expires", "policy", "key-pair-id", "awsaccesskeyid", "googleaccessid", "ossaccesskeyid",
        "hdnts", "hdnea", "jwt", "token", "ticket", "sign", "auth", "auth_key", "nonce",
    ]

    /// Parameters of Azure's shared access signatures, which also have a `sig`.
    private static let sharing: Set<String> = [
        "sv", "sr", "sp", "st", "se", "spr", "sip", "skoid", "sktid", "skt", "ske", "sks", "skv",
    ]
}
