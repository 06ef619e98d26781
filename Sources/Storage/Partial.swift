package import HaulContract
package import HaulHTTP

/// A file that is not whole yet: any number of bodies are put together in it, at their offsets.
///
/// A generation of it has the bytes of one entity. It is one run's: what a fenced run still writes changes no other one.
package protocol Partial: BodyDestination, AnyObject {
    var generation: String { get }

    /// Where it is; nil before it is opened.
    var place: PartialPlace? { get }

    /// Bytes that are there (not synced), those of earlier runs included.
    var written: ByteIntervals { get }

    /// The first error of a write or a sync. It stays.
    var error: TransferError? { get }

    /// Bytes are hashed as they come, which can be slower than the network.
    var isHashing: Bool { get }

    /// Connections are best begun and ended at multiples of it.
    var alignment: Int64 { get }

    /// So many connections at once are no use to it beyond.
    var mostSinks: Int { get }

    /// Makes it, with room for `total` bytes, and writes `bytes` to its start.
    ///
    /// - Parameter digest: Hashed while the bytes come.
    /// - Throws: `.noSpace` if there is no room now, `too_large` if there never can be; `file_exists`.
    func open(
        total: Int64?, hashing digest: Job.Checksum.Algorithm?, with bytes: [UInt8]
    ) async throws(TransferError)

    /// Sees that there is room for `total` bytes in one that an earlier run left.
    func reserve(_ total: Int64) async throws(TransferError)

    /// Makes what has come durable, as far as that is worth it, and returns what is; nil if nothing is new since the last time, or
    /// it is not open.
    ///
    /// - Parameter isLast: This process writes no more to it: all that has come is worth it.
    func checkpoint(isLast: Bool) async throws(TransferError) -> Checkpoint?

    /// The last checkpoint did not wait for all that had come: another one is due.
    var hasMoreToTell: Bool { get }

    /// Judges the whole, makes it durable and gives it its name.
    func commit(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome

    /// The same for a file of which all bytes are here and none is written yet. Several may go together.
    func put(_ bytes: [UInt8], _ whole: WholeFile) async throws(TransferError) -> CommitOutcome

    /// Whether something of it is left.
    func exists() async -> Bool

    /// Removes it, or if it has its final name what proves that. `soon` is when it costs less, and is not waited for.
    func discard(soon: Bool) async
}

extension Partial {
    package var alignment: Int64 { 1 << 20 }
    package var mostSinks: Int { 16 }
    package var hasMoreToTell: Bool { false }
}

/// What is durable of a partial file.
package struct Checkpoint: Sendable {
    package let offsets: ByteIntervals
    /// crc32c of each interval's last block, by the interval's end.
    package let blockChecks: [Int64: UInt32]
    /// What else the store has to know to go on, in words of its own.
    package let journal: String

    package init(offsets: ByteIntervals, blockChecks: [Int64: UInt32], journal: String = "") {
        (self.offsets, self.blockChecks, self.journal) = (offsets, blockChecks, journal)
    }
}

/// What a file must be once all of its bytes are there.
package struct WholeFile: Sendable {
    package let size: Int64
    /// The digest that it must have.
    package let checksum: Job.Checksum?
    /// Who says so: "the job" or "the server".
    package let authority: String
    /// As the server sent it: a date of HTTP (RFC 9110 section 5.6.7).
    package let lastModified: String?

    package init(size: Int64, checksum: Job.Checksum?, authority: String, lastModified: String?) {
        (self.size, self.checksum, self.authority, self.lastModified) = (size, checksum, authority, lastModified)
    }
}

package enum CommitOutcome: Sendable {
    /// It has its name, durably: only `completed` may be settled.
    case stored(StoredFile)
    /// Another run has the job.
    case fenced
    /// The store itself is gone.
    case storeIsGone
}

/// A file that has its final name.
package struct StoredFile: Sendable {
    /// Its path in the store.
    package let file: String
    package let bytes: Int64
    /// Tells it from another one that is put in its place.
    package let identity: UInt64
    /// Nanoseconds since 1970.
    package let modified: Int64
    /// `algorithm:hex` if one was computed.
    package let checksum: String?

    package init(file: String, bytes: Int64, identity: UInt64, modified: Int64, checksum: String?) {
        (self.file, self.bytes, self.identity, self.modified, self.checksum) = (
            file, bytes, identity, modified, checksum
        )
    }
}
