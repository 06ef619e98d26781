import HaulContract

/// AWS Signature Version 4 in the Authorization field, as S3 wants it. Other services encode the path twice and
/// normalize it; for S3 it is encoded once.
struct Signature: Sendable {
    /// In place of the body's digest: the signature does not cover the body.
    static let unsignedPayload = "UNSIGNED-PAYLOAD"
    /// SHA-256 of no bytes.
    static let emptyPayload = Hexadecimal.text(Digest.sha256([]))

    let credentials: Credentials
    let region: String
    var service = "s3"
    /// Seconds since 1970 by the server's clock, as far as the clock skew is known.
    let time: Int64
    /// Shared by the signatures of a bucket.
    var keys = SigningKeys()

    /// The parts of a request that are signed.
    struct Question {
        var method: String
        /// With the port, unless it is the default of the scheme.
        var host: String
        /// Not percent-encoded.
        var path: String
        var query: [(String, String)] = []
        /// All fields that are sent, except Host and those that `fields(for:)` adds.
        var headers: [HeaderField] = []
        /// SHA-256 of the body in hexadecimal, or `unsignedPayload`.
        var payload: String
    }

    /// The fields to send in addition to those of `question`: body digest, date, session token and Authorization.
    func fields(for question: Question) -> [HeaderField] {
        let stamp = AmazonTime.stamp(time)
        var added = [HeaderField("x-amz-content-sha256", question.payload), HeaderField("x-amz-date", stamp)]
        if let token = credentials.token { added.append(HeaderField("x-amz-security-token", token)) }
        var all = (question.headers + added).map { ($0.name.lowercased(), Self.trimmed($0.value)) }
        all.append(("host", question.host))
        all.sort { $0.0 < $1.0 }
        let names = all.map(\.0).joined(separator: ";")
        let canonical = [
            question.method, URIText.path(question.path), URIText.query(question.query),
            all.map { "\($0.0):\($0.1)\n" }.joined(), names, question.payload,
        ].joined(separator: "\n")
        let day = String(stamp.prefix(8))
        let scope = "\(day)/\(region)/\(service)/aws4_request"
        let digest = Hexadecimal.text(Digest.sha256(canonical.utf8))
        let key = keys.key(secret: credentials.secret, day: day, region: region, service: service)
        let signature = Hexadecimal.text(Digest.hmac(key.bytes, "AWS4-HMAC-SHA256\n\(stamp)\n\(scope)\n\(digest)"))
        let authorization =
            "AWS4-HMAC-SHA256 Credential=\(credentials.accessKey)/\(scope),SignedHeaders=\(names),Signature=\(signature)"
        return added + [HeaderField("Authorization", authorization)]
    }

    /// Without blanks at both ends, and with one blank in place of several.
    private static func trimmed(_ value: String) -> String {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
        guard value.utf8.contains(where: isBlank) else { return value }
        return value.utf8.split(whereSeparator: isBlank).map { String(Substring($0)) }.joined(separator: " ")
    }
}
