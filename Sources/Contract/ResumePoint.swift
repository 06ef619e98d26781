/// How far a job has come, as any worker needs it to go on: the remote entity, the partial file and its durable bytes.
///
/// Lives in the job's hash (and `offsets`); written by a tick only after the bytes are synced.
package struct ResumePoint: Sendable, Equatable {
    /// Names the partial file: the token of the run that opened it.
    package var generation: String
    /// The id of the store (a worker's root) that holds the bytes; offsets count nowhere else.
    package var store: String
    /// The final path that was chosen, relative to the root; kept so that every worker continues the same file.
    package var file: String
    package var entity: Entity
    /// The URL (of `urls`) that the bytes came from, masked: validators differ between mirrors by design, and a newly
    /// signed query is the same mirror.
    package var source: String
    /// Where redirects of `source` led: the rest is asked for there. "" where there were none, and where the URL may be a secret.
    package var landing: String
    /// Some bytes came from others: only a digest of the whole can prove them right.
    package var isMixed: Bool
    /// Durable bytes.
    package var offsets: ByteIntervals
    /// crc32c of each interval's last block (at most 4 KiB), by the interval's end: tells a cloned or restored volume.
    package var blockChecks: [Int64: UInt32]
    /// What else the store that holds the bytes has to know: in its own words, which mean nothing to anybody else.
    package var journal: String

    package init(
        generation: String, store: String, file: String, entity: Entity, source: String, landing: String = "",
        isMixed: Bool = false, offsets: ByteIntervals = ByteIntervals(), blockChecks: [Int64: UInt32] = [:],
        journal: String = ""
    ) {
        (self.generation, self.store, self.file, self.entity, self.source) = (generation, store, file, entity, source)
        (self.landing, self.isMixed) = (landing, isMixed)
        (self.offsets, self.blockChecks, self.journal) = (offsets, blockChecks, journal)
    }
}

/// What identifies one version of the remote bytes (RFC 9110 section 8.8), as the first response told it.
package struct Entity: Sendable, Equatable {
    /// Opaque and with its quotes, byte for byte as sent; weak ones keep their `W/`.
    package var etag: String?
    /// Byte for byte as sent.
    package var lastModified: String?
    /// Whether `lastModified` is strong: at least 60 s older than the response's Date. False where a strong ETag is better.
    package var lastModifiedIsStrong: Bool
    /// Bytes; nil if the server did not say.
    package var total: Int64?
    /// Content-Encoding as sent, "" if none.
    package var encoding: String
    /// What the server says the digest of the whole is: it verifies the file where the job has no checksum.
    package var digest: Job.Checksum?
    /// Names the resource to which redirects led; "" where there were none. The validators are of that resource alone.
    package var resource: String

    package init(
        etag: String? = nil, lastModified: String? = nil, lastModifiedIsStrong: Bool = false, total: Int64? = nil,
        encoding: String = "", digest: Job.Checksum? = nil, resource: String = ""
    ) {
        (self.etag, self.lastModified, self.lastModifiedIsStrong) = (etag, lastModified, lastModifiedIsStrong)
        (self.total, self.encoding, self.digest, self.resource) = (total, encoding, digest, resource)
    }
}

/// What a finished file was, kept in the job's hash: `if_exists: reuse` trusts a file only if it still looks like this.
package struct CompletedFile: Sendable, Equatable {
    /// Relative to the root.
    package var file: String
    package var bytes: Int64
    package var store: String
    /// Its inode; on a file system without lasting ones what stands for it, made of size and time.
    package var inode: UInt64
    /// Nanoseconds since 1970.
    package var modified: Int64
    package var entity: Entity
    /// The URL (of `urls`) that the bytes came from, masked.
    package var source: String
    /// `algorithm:hex` if one was computed.
    package var checksum: String?
    /// The unix ms at which it was last known to be what the server has.
    package var validated: Int64
    /// The media type that its job asked for, and the server said it was.
    package var contentType: String?

    package init(
        file: String, bytes: Int64, store: String, inode: UInt64, modified: Int64, entity: Entity, source: String,
        checksum: String? = nil, validated: Int64, contentType: String? = nil
    ) {
        (self.file, self.bytes, self.store, self.inode, self.modified) = (file, bytes, store, inode, modified)
        (self.entity, self.source, self.checksum, self.validated) = (entity, source, checksum, validated)
        self.contentType = contentType
    }
}
