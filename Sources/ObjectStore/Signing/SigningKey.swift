import Synchronization

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
