import HaulContract
import HaulHTTP
import Synchronization

/// AWS Signature Version 4 in the Authorization field, as S3 requires it. Other services encode the path twice and
/// normalize it; for S3 it is encoded once.
struct Signature: Sendable {
    /// Replaces the body's digest when the signature does not cover the body.
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
    struct SignedRequest {
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

    /// The fields to send in addition to those of `request`: body digest, date, session token and Authorization.
    func fields(for request: SignedRequest) -> [HeaderField] {
        var added = [HeaderField("x-amz-content-sha256", request.payload), HeaderField("x-amz-date", stamp)]
        if let token = credentials.token { added.append(HeaderField("x-amz-security-token", token)) }
        let all = signedFields(request.headers + added, request.host)
        let names = all.map(\.name).joined(separator: ";")
        let signature = signature(of: request, all, query: request.query)
        let authorization =
            "\(Self.algorithm) Credential=\(credentials.accessKey)/\(scope),SignedHeaders=\(names),Signature=\(signature)"
        return added + [HeaderField("Authorization", authorization)]
    }

    /// The query items to send in addition to those of `request`. The store refuses such a request when `seconds` have
    /// passed. The signature does not cover the body.
    func query(for request: SignedRequest, validFor seconds: Int64) -> [(String, String)] {
        let all = signedFields(request.headers, request.host)
        var added = [
            ("X-Amz-Algorithm", Self.algorithm), ("X-Amz-Credential", "\(credentials.accessKey)/\(scope)"),
            ("X-Amz-Date", stamp), ("X-Amz-Expires", "\(seconds)"),
            ("X-Amz-SignedHeaders", all.map(\.name).joined(separator: ";")),
        ]
        if let token = credentials.token { added.append(("X-Amz-Security-Token", token)) }
        var unsigned = request
        unsigned.payload = Self.unsignedPayload
        return added + [("X-Amz-Signature", signature(of: unsigned, all, query: request.query + added))]
    }

    private static let algorithm = "AWS4-HMAC-SHA256"
    private var stamp: String { AmazonTime.stamp(time) }
    private var scope: String { "\(stamp.prefix(8))/\(region)/\(service)/aws4_request" }

    private func signedFields(_ fields: [HeaderField], _ host: String) -> [(name: String, value: String)] {
        let all =
            fields.map { (name: $0.name.lowercased(), value: Self.trimmed($0.value)) } + [(name: "host", value: host)]
        return all.sorted { $0.name < $1.name }
    }

    private func signature(
        of request: SignedRequest, _ fields: [(name: String, value: String)], query: [(String, String)]
    ) -> String {
        let canonical = [
            request.method, URIText.path(request.path), URIText.query(query),
            fields.map { "\($0.name):\($0.value)\n" }.joined(), fields.map(\.name).joined(separator: ";"),
            request.payload,
        ].joined(separator: "\n")
        let digest = Hexadecimal.text(Digest.sha256(canonical.utf8))
        let key = keys.key(
            secret: credentials.secret, day: String(stamp.prefix(8)), region: region, service: service)
        return Hexadecimal.text(Digest.hmac(key.bytes, "\(Self.algorithm)\n\(stamp)\n\(scope)\n\(digest)"))
    }

    /// Without blanks at both ends, and with one blank instead of several.
    private static func trimmed(_ value: String) -> String {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
        guard value.utf8.contains(where: isBlank) else { return value }
        return value.utf8.split(whereSeparator: isBlank).map { String(Substring($0)) }.joined(separator: " ")
    }
}

/// The key that signs all requests of one day to one region (AWS Signature Version 4, "derive a signing key").
struct SigningKey: Sendable {
    let bytes: [UInt8]

    init(secret: String, day: String, region: String, service: String) {
        bytes = [day, region, service, "aws4_request"].reduce(Array("AWS4\(secret)".utf8)) { Digest.hmac($0, $1) }
    }
}

/// Caches the last signing key, since deriving it costs four HMACs.
final class SigningKeys: Sendable {
    private struct Origin: Equatable { let secret, day, region, service: String }

    private let last = Mutex<(origin: Origin, key: SigningKey)?>(nil)

    func key(secret: String, day: String, region: String, service: String) -> SigningKey {
        let origin = Origin(secret: secret, day: day, region: region, service: service)
        return last.withLock { last in
            if let last, last.origin == origin { return last.key }
            let key = SigningKey(secret: secret, day: day, region: region, service: service)
            last = (origin, key)
            return key
        }
    }
}

/// Percent-encoding for the URIs of S3. The URI that is sent must equal the signed one byte by byte.
enum URIText {
    static func encode(_ text: String) -> String { PercentEncoding.component(text) }

    /// Encodes a path except for its slashes.
    static func path(_ text: String) -> String { PercentEncoding.component(text, keeping: [UInt8(ascii: "/")]) }

    /// Encodes a query in the order that a signature needs: sorted by the encoded names, then by the values.
    static func query(_ items: [(String, String)]) -> String {
        items.map { (encode($0), encode($1)) }.sorted { $0 < $1 }.map { "\($0)=\($1)" }.joined(separator: "&")
    }
}
