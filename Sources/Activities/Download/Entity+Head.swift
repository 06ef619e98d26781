import HaulContract
import HaulHTTP

extension ResponseHead {
    /// It tells two versions at once.
    var hasContradictoryValidators: Bool { headers.contradict("etag") || headers.contradict("last-modified") }
}

extension Entity {
    /// What a response tells of the version of the bytes that it carries. `total` is the whole entity's length, `resource` is what
    /// the response is of.
    init(_ head: ResponseHead, total: Int64?, resource: String = "") {
        // Of two that differ nobody knows which one is right.
        let tellsVersion = !head.hasContradictoryValidators
        self.init(
            etag: tellsVersion ? head.headers["etag"] : nil,
            lastModified: tellsVersion ? head.headers["last-modified"] : nil, total: total,
            encoding: head.headers["content-encoding"] ?? "", digest: DigestFields.checksum(head),
            resource: resource)
        if strongETag == nil, let modified = lastModified.flatMap(HTTPDate.parse),
            let date = head.headers["date"].flatMap(HTTPDate.parse)
        {
            // RFC 9110 section 8.8.2.2 asks for a second; clocks and file systems are coarser than that.
            lastModifiedIsStrong = date - modified >= 60
        }
    }

    /// What tells this version from others, for a person who wants to know.
    func words(isResumable: Bool) -> String {
        var parts: [String] = []
        if let etag { parts.append("ETag \(etag)") }
        if let lastModified { parts.append("Last-Modified \(lastModified)") }
        if let digest { parts.append("the server's \(digest.algorithm.rawValue)") }
        let told = parts.isEmpty ? "the server tells no validator" : "validators: " + parts.joined(separator: ", ")
        return told + (isResumable ? "" : "; this download cannot be continued if it is interrupted")
    }

    /// A strong ETag (RFC 9110 section 8.8.3), nil if it is weak or absent.
    var strongETag: String? { etag.flatMap { $0.hasPrefix("\"") && $0.utf8.count >= 2 ? $0 : nil } }

    /// What If-Range may carry: the strong ETag, else a strong Last-Modified.
    var strongValidator: String? { strongETag ?? (lastModifiedIsStrong ? lastModified : nil) }

    /// Whether a complete response (200) carries the same version, as far as its validators prove it.
    func isSame(as other: Entity) -> Bool {
        guard resource == other.resource, encoding == other.encoding, total == other.total,
            !contradicts(other.digest), !isModified(other.lastModified)
        else { return false }
        if let mine = strongETag { return mine == other.strongETag }
        guard lastModifiedIsStrong, let mine = lastModified else { return false }
        // A weak ETag proves nothing, but another one says that something has changed.
        return mine == other.lastModified && etag == other.etag
    }

    /// Whether another date says that something has changed. It does even beside the same strong ETag: there are servers that
    /// keep the ETag of a file that they have seen before.
    func isModified(_ other: String?) -> Bool {
        guard let lastModified, let other else { return false }
        return lastModified != other
    }

    /// Whether the digests say that the bytes differ; two algorithms cannot be compared.
    func contradicts(_ other: Job.Checksum?) -> Bool {
        guard let digest, let other else { return false }
        return digest.algorithm == other.algorithm && digest.digest != other.digest
    }
}
