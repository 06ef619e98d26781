package import HaulContract
import HaulHTTP

/// The address of a bucket: `s3://BUCKET/PREFIX`, the endpoint and the region.
package struct BucketAddress: Sendable, Equatable, CustomStringConvertible {
    package let bucket: String
    /// Without slashes at both ends; may be empty.
    package let prefix: String
    /// Scheme, host and port; nil for Amazon's endpoint of the region.
    package let endpoint: String?
    package let region: String
    /// The bucket is the first part of the path, and not of the host name.
    package let isPathStyle: Bool

    package static let scheme = "s3://"

    /// - Parameters:
    ///   - text: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    ///   - isPathStyle: nil for the default: true with an `endpoint`, since few of these have a host name for each
    ///     bucket, and for a bucket with a dot in its name.
    /// - Throws: `bad_job`, with a sentence that says what is wrong.
    package init(
        _ text: String, endpoint: String? = nil, region: String? = nil, isPathStyle: Bool? = nil
    ) throws(Failure) {
        guard text.hasPrefix(Self.scheme) else {
            throw Failure(.badJob, "\"\(text)\" is not a valid object store: write s3://BUCKET or s3://BUCKET/PREFIX")
        }
        let parts = text.dropFirst(Self.scheme.count).split(
            separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        bucket = String(parts[0])
        guard Self.isBucket(bucket) else {
            throw Failure(
                .badJob,
                "\"\(bucket)\" is not a valid bucket name: write 3 to 63 of the characters a-z 0-9 . - (and A-Z _ of older ones)"
            )
        }
        let words = (parts.count > 1 ? parts[1] : "").split(separator: "/").map(String.init)
        guard words.allSatisfy({ !$0.hasPrefix(".haul") && $0 != "." && $0 != ".." }) else {
            throw Failure(.badJob, "no part of a prefix is \".\" or \"..\", or begins with .haul")
        }
        prefix = words.joined(separator: "/")
        guard prefix.utf8.count <= 500 else { throw Failure(.badJob, "the prefix is longer than 500 bytes") }
        if let endpoint {
            guard let url = WebURL(endpoint), url.path.isEmpty || url.path == "/", url.query == nil, url.login == nil
            else {
                throw Failure(
                    .badJob, "the endpoint must be http:// or https:// with a host and perhaps a port, and no path")
            }
            self.endpoint = url.origin
        } else {
            self.endpoint = nil
        }
        self.region = region ?? "us-east-1"
        self.isPathStyle = isPathStyle ?? (endpoint != nil || bucket.contains("."))
    }

    private static func isBucket(_ name: String) -> Bool {
        (3...63).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            } && name.utf8.first != UInt8(ascii: ".") && name.utf8.first != UInt8(ascii: "-")
    }

    /// `s3://BUCKET/PREFIX`, without the endpoint.
    package var description: String { Self.scheme + bucket + (prefix.isEmpty ? "" : "/" + prefix) }

    /// The object's key for a path in the store.
    func key(_ path: String) -> String { prefix.isEmpty ? path : "\(prefix)/\(path)" }

    /// Origin, Host field and unencoded path of a request for `key`. An empty key means the bucket itself.
    func location(of key: String, region: String) -> (origin: String, host: String, path: String) {
        let base = endpoint ?? "https://s3.\(region).amazonaws.com"
        let split = base.utf8.firstIndex(of: UInt8(ascii: ":"))!
        let (scheme, authority) = (base[..<split], base[base.index(split, offsetBy: 3)...])
        let isDefault =
            scheme == "https" && authority.hasSuffix(":443") || scheme == "http" && authority.hasSuffix(":80")
        let bare = isDefault ? authority[..<authority.lastIndex(of: ":")!] : authority
        if isPathStyle {
            return ("\(scheme)://\(authority)", String(bare), key.isEmpty ? "/\(bucket)" : "/\(bucket)/\(key)")
        }
        return ("\(scheme)://\(bucket).\(authority)", "\(bucket).\(bare)", "/\(key)")
    }
}
