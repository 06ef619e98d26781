import HaulContract
import HaulHTTP

extension ResponseHead {
    /// The maximum bytes of a validator or an encoding that are stored with a job, in Redis.
    static let maxKept = Entity.maxValidatorBytes

    /// The content codings. No real list of them is longer than what is stored.
    var encoding: String { (headers["content-encoding"] ?? "").truncated(toBytes: Self.maxKept) }

    /// The ETag; nil for an empty one.
    var etag: String? { headers["etag"].flatMap { $0.isEmptyTag ? nil : $0 } }

    /// The head has several ETags that differ, several Last-Modified that differ, or one that is too long to be stored, or
    /// has a control character, which no request may repeat.
    var hasUnusableValidators: Bool {
        ["etag", "last-modified"].contains { name in
            headers.contradict(name)
                || headers.all(name).contains { value in
                    value.utf8.count > Self.maxKept || value.utf8.contains { $0 < 0x20 && $0 != 0x09 || $0 == 0x7f }
                }
        }
    }
}

extension String {
    /// An ETag without meaning: servers without tags send it for every version.
    var isEmptyTag: Bool { ["", "\"\"", "W/\"\""].contains(self) }
}

extension Entity {
    /// The version of the bytes that a response carries, by its head.
    ///
    /// - Parameters:
    ///   - total: The length of the whole entity in bytes.
    ///   - resource: The `Entity.resource` of the response.
    init(_ head: ResponseHead, total: Int64?, resource: String = "") {
        // If two validators differ, it is unknown which one is right.
        let identifiesVersion = !head.hasUnusableValidators
        self.init(
            etag: identifiesVersion ? head.etag : nil,
            lastModified: identifiesVersion ? head.headers["last-modified"] : nil, total: total,
            encoding: head.encoding, digest: DigestFields.checksum(head),
            resource: resource)
        lastModifiedIsStrong = strongETag == nil && Self.isStrong(lastModified, sentAt: head.headers["date"])
    }

    /// Whether a Last-Modified in a response of this Date proves a version. One that is younger may stay the same when
    /// the file changes once more (RFC 9110 section 8.8.2.2 requires one second; clocks and file systems are coarser).
    static func isStrong(_ lastModified: String?, sentAt date: String?) -> Bool {
        guard let modified = lastModified.flatMap(HTTPDate.parse), let date = date.flatMap(HTTPDate.parse) else {
            return false
        }
        return date - modified >= 60
    }

    /// The validators of this version, as a sentence for a person.
    func validatorSummary(isResumable: Bool) -> String {
        var parts: [String] = []
        if let etag { parts.append("ETag \(etag)") }
        if let lastModified { parts.append("Last-Modified \(lastModified)") }
        if let digest { parts.append("the server's \(digest.algorithm.rawValue)") }
        let validators =
            parts.isEmpty ? "the server sends no validator" : "validators: " + parts.joined(separator: ", ")
        return validators + (isResumable ? "" : "; this download cannot be continued if it is interrupted")
    }

    /// The ETag if it is strong (RFC 9110 section 8.8.3), else nil.
    var strongETag: String? { etag.flatMap { $0.hasPrefix("\"") && $0.utf8.count > 2 ? $0 : nil } }

    /// The validator for If-Range: the strong ETag, else a strong Last-Modified.
    var strongValidator: String? { strongETag ?? (lastModifiedIsStrong ? lastModified : nil) }

    /// Whether the validators prove that `other`, of a complete response (200), is the same version.
    func isSame(as other: Entity) -> Bool {
        guard resource == other.resource, encoding == other.encoding, total == other.total,
            !contradicts(other.digest), !isModified(other.lastModified)
        else { return false }
        if let digest, digest == other.digest { return true }
        if let mine = strongETag { return mine == other.strongETag }
        guard lastModifiedIsStrong, let mine = lastModified else { return false }
        // A weak ETag cannot prove equality, but a different one shows a change.
        return mine == other.lastModified && etag == other.etag
    }

    /// Whether the other Last-Modified shows a change, even beside the same strong ETag, which some servers keep.
    func isModified(_ other: String?) -> Bool {
        guard let lastModified, let other else { return false }
        return lastModified != other
    }

    /// Whether the digests show that the bytes differ. Digests of two algorithms cannot be compared.
    func contradicts(_ other: Job.Checksum?) -> Bool {
        guard let digest, let other else { return false }
        return digest.algorithm == other.algorithm && digest.digest != other.digest
    }
}
