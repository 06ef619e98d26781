import HaulContract

extension WebURL {
    /// Names the resource that a response from here is of: 16 hexadecimal digits, which tell no secret.
    ///
    /// A validator tells versions of one resource apart, and says nothing of another's (RFC 9110 section 8.8.3). Host, port, path and
    /// query make the resource. What signs a query is not of the name: it differs each time that the same URL is signed.
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

    /// Parameters of signed URLs: those of Amazon (version 2; version 4 and others begin with "x-"), CloudFront, Google, Alibaba, Akamai, and the
    /// names that those give who sign URLs by themselves.
    private static let signing: Set<String> = [
        "signature", "sig", "expires", "policy", "key-pair-id", "awsaccesskeyid", "googleaccessid", "ossaccesskeyid",
        "hdnts", "hdnea", "jwt", "token", "ticket", "sign", "auth", "auth_key", "nonce",
    ]

    /// Those of a shared access signature of Azure, which has a `sig`.
    private static let sharing: Set<String> = [
        "sv", "sr", "sp", "st", "se", "spr", "sip", "skoid", "sktid", "skt", "ske", "sks", "skv",
    ]
}
