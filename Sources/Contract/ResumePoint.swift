/// A record of bytes that says where they came from.
package protocol SourcedRecord: Sendable {
    /// The URL (of `urls`), masked.
    var source: String { get }
    /// Names the URL of `source` with its query, which `source` does not show. "" for a URL without a query, and if
    /// version 0.2 has written the record.
    var sourceResource: String { get }
    var entity: Entity { get }
}

/// A checkpoint from which any worker can resume a download: the remote entity, the partial file and its durable bytes.
///
/// The job's hash and its `offsets` hold the resume point. A tick writes it only after the bytes are synced.
package struct ResumePoint: SourcedRecord, Equatable {
    /// The name of the partial file: the token of the run that opened it.
    package var generation: String
    /// The id of the store that holds the bytes, such as the workers' root. The offsets are valid for this store only.
    package var store: String
    /// The final path that was chosen, relative to the root. Each worker that resumes keeps this path.
    package var file: String
    package var entity: Entity
    /// The URL (of `urls`) from which the bytes came, masked. Validators of other mirrors may differ. The query is
    /// masked because a newly signed query does not make another mirror.
    package var source: String
    package var sourceResource = ""
    /// The media type that a job asked for, and that a response for this entity confirmed. nil if none was asked for,
    /// and if version 0.2 has written the record.
    package var contentType: String?
    /// The URL to which redirects of `source` led, from which the rest is requested. "" without redirects, and if the
    /// URL may be a secret.
    package var finalURL: String
    /// Whether bytes of several mirrors are mixed. If so, only a digest of the whole file can prove that it is right.
    package var isMixed: Bool
    /// The durable bytes.
    package var offsets: ByteIntervals
    /// The crc32c of the last block of each interval (at most 4 KiB), by the interval's end. Detects a cloned or
    /// restored volume.
    package var blockChecks: [Int64: UInt32]
    /// Further state of the store that holds the bytes. Only this store understands the text.
    package var storeState: String

    package init(
        generation: String, store: String, file: String, entity: Entity, source: String, finalURL: String = "",
        isMixed: Bool = false, offsets: ByteIntervals = ByteIntervals(), blockChecks: [Int64: UInt32] = [:],
        storeState: String = ""
    ) {
        (self.generation, self.store, self.file, self.entity, self.source) = (generation, store, file, entity, source)
        (self.finalURL, self.isMixed) = (finalURL, isMixed)
        (self.offsets, self.blockChecks, self.storeState) = (offsets, blockChecks, storeState)
    }
}

/// One version of the remote bytes (RFC 9110 section 8.8), as the first response described it.
package struct Entity: Sendable, Equatable {
    /// A longer validator is not stored with a job, in Redis.
    package static let maxValidatorBytes = 1024

    /// The ETag byte for byte as sent, with its quotes, and with `W/` if weak.
    package var etag: String?
    /// The Last-Modified byte for byte as sent.
    package var lastModified: String?
    /// Whether `lastModified` is a strong validator: at least 60 s older than the response's Date. False if there is a
    /// strong ETag, which is preferred.
    package var lastModifiedIsStrong: Bool
    /// The number of bytes. nil if the server did not give it.
    package var total: Int64?
    /// The Content-Encoding as sent, "" if none.
    package var encoding: String
    /// The digest of the whole that the server gave. It verifies the file if the job has no checksum.
    package var digest: Job.Checksum?
    /// A name of the resource to which redirects led, "" without redirects. Only this resource has these validators.
    package var resource: String

    package init(
        etag: String? = nil, lastModified: String? = nil, lastModifiedIsStrong: Bool = false, total: Int64? = nil,
        encoding: String = "", digest: Job.Checksum? = nil, resource: String = ""
    ) {
        (self.etag, self.lastModified, self.lastModifiedIsStrong) = (etag, lastModified, lastModifiedIsStrong)
        (self.total, self.encoding, self.digest, self.resource) = (total, encoding, digest, resource)
    }
}

/// A finished file as the job's hash describes it. `if_exists: reuse` trusts the file only while this still matches.
package struct CompletedFile: SourcedRecord, Equatable {
    /// The path, relative to the root.
    package var file: String
    package var bytes: Int64
    package var store: String
    /// The inode number. On a file system without persistent inode numbers a substitute that is made of size and time.
    package var inode: UInt64
    /// Nanoseconds since 1970.
    package var modified: Int64
    package var entity: Entity
    /// The URL (of `urls`) from which the bytes came, masked.
    package var source: String
    package var sourceResource = ""
    /// `algorithm:hex`, if a digest was computed.
    package var checksum: String?
    /// When the file was last known to be the server's current version, in unix milliseconds.
    package var validated: Int64
    /// The media type that the job asked for, and that the server confirmed.
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
