import HaulContract

/// AWS Signature Version 4 in the Authorization header, as S3 wants it: the path is encoded once, and never normalised.
struct Signature: Sendable {
    /// The body is not part of the signature.
    static let unsignedPayload = "UNSIGNED-PAYLOAD"

    let credentials: Credentials
    let region: String
    var service = "s3"
    /// Seconds since 1970, by the server's clock as far as that is known.
    let time: Int64

    /// What of a request is signed.
    struct Question {
        var method: String
        /// With its port, unless that is the scheme's own.
        var host: String
        /// Not encoded.
        var path: String
        var query: [(String, String)] = []
        /// All that are sent, but the host and what is added here.
        var headers: [HeaderField] = []
        /// SHA-256 of the body in hexadecimal, or `unsignedPayload`.
        var payload: String
    }

    /// The fields that are to be sent besides those of the question.
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
        let scope = "\(stamp.prefix(8))/\(region)/\(service)/aws4_request"
        let text = ["AWS4-HMAC-SHA256", stamp, scope, Digest.sha256(canonical.utf8).hexadecimal].joined(separator: "\n")
        let signature = Digest.hmac(key(of: String(stamp.prefix(8))), text).hexadecimal
        let authorization =
            "AWS4-HMAC-SHA256 Credential=\(credentials.accessKey)/\(scope),SignedHeaders=\(names),Signature=\(signature)"
        return added + [HeaderField("Authorization", authorization)]
    }

    private func key(of day: String) -> [UInt8] {
        [day, region, service, "aws4_request"].reduce(Array("AWS4\(credentials.secret)".utf8)) { Digest.hmac($0, $1) }
    }

    private static func trimmed(_ value: String) -> String { value[...].utf8Trimmed }
}

extension Substring {
    /// Without blanks around it, and with one in place of several.
    fileprivate var utf8Trimmed: String {
        utf8.split { $0 == 0x20 || $0 == 0x09 }.map { String(Substring($0)) }.joined(separator: " ")
    }
}
