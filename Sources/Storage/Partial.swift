package import HaulContract
package import HaulHTTP

/// A file that is not complete yet. Any number of bodies are combined in it, each at its offset.
///
/// A generation has the bytes of one entity and belongs to one run. What a fenced run still writes changes no other.
package protocol Partial: BodyDestination, AnyObject {
    var generation: String { get }

    /// Where the partial file is; nil before it is opened.
    var location: PartialLocation? { get }

    /// The bytes that have been written (not synced), including those of earlier runs.
    var written: ByteIntervals { get }

    /// The written bytes that another run could continue after the last checkpoint.
    var resumable: ByteIntervals { get }

    /// The first error of a write or a sync. It is never cleared.
    var error: TransferError? { get }

    /// Bytes are hashed as they arrive, which can be slower than the network.
    var isHashing: Bool { get }

    /// Connections should start and end at multiples of this number of bytes.
    var alignment: Int64 { get }

    /// More connections at once than this do not help.
    var maxSinks: Int { get }

    /// Creates the file with space for `total` bytes, and writes `bytes` to its start.
    ///
    /// - Parameter digest: Computed while the bytes arrive.
    /// - Throws: `.noSpace` if there is not enough space now, `too_large` if there never can be; `file_exists`.
    func open(
        total: Int64?, hashing digest: Job.Checksum.Algorithm?, with bytes: [UInt8]
    ) async throws(TransferError)

    /// Reserves space for `total` bytes in a file that an earlier run left.
    func reserve(_ total: Int64) async throws(TransferError)

    /// Makes the received bytes durable, as far as that is worth its cost, and returns what is durable. nil if nothing
    /// is new since the last checkpoint, or if the file is not open.
    ///
    /// - Parameter isLast: This process will write no more to the file, so all received bytes are worth it.
    func checkpoint(isLast: Bool) async throws(TransferError) -> Checkpoint?

    /// The last checkpoint left out received bytes, so another checkpoint is due.
    var hasMoreToReport: Bool { get }

    /// Checks the whole file, makes it durable and gives it its name.
    func commit(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome

    /// Does the same for a file whose bytes are all here, and not written yet. Several files may be committed together.
    func put(_ bytes: [UInt8], _ whole: WholeFile) async throws(TransferError) -> CommitOutcome

    /// Whether any of the file is left in the store.
    func exists() async -> Bool

    /// Removes the file. If it has its final name, removes only the proof of that. With `soon`, the work is deferred
    /// until it costs less, and is not waited for.
    func discard(soon: Bool) async
}

extension Partial {
    package var alignment: Int64 { 1 << 20 }
    package var maxSinks: Int { 64 }
    package var hasMoreToReport: Bool { false }
    package var resumable: ByteIntervals { written }
}

/// What is durable of a partial file.
package struct Checkpoint: Sendable {
    package let offsets: ByteIntervals
    /// The crc32c of each interval's last block, by the interval's end.
    package let blockChecks: [Int64: UInt32]
    /// What else the store needs to continue, in a format of its own.
    package let storeState: String

    package init(offsets: ByteIntervals, blockChecks: [Int64: UInt32], storeState: String = "") {
        (self.offsets, self.blockChecks, self.storeState) = (offsets, blockChecks, storeState)
    }
}

/// What a file must be once all of its bytes have arrived.
package struct WholeFile: Sendable {
    package let size: Int64
    /// The digest that it must have.
    package let checksum: Job.Checksum?
    /// Who requires the digest: "the job" or "the server".
    package let authority: String
    /// The date of HTTP that the server sent (RFC 9110 section 5.6.7).
    package let lastModified: String?
    /// Called once the file is verified and before it gets its name. Throws if it must not get one. nil: there is no
    /// gate.
    package var gate: (@Sendable (GatedFile) async throws(TransferError) -> Void)?

    package init(size: Int64, checksum: Job.Checksum?, authority: String, lastModified: String?) {
        (self.size, self.checksum, self.authority, self.lastModified) = (size, checksum, authority, lastModified)
    }
}

package enum CommitOutcome: Sendable {
    /// The file has its name, durably. From now on only `completed` may be settled.
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
    /// Distinguishes the file from another one that replaces it.
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

/// A whole file that has no name yet, as the operator's gate sees it.
package struct GatedFile: Sendable {
    /// Calls its argument with piece after piece, until it returns false or no bytes are left.
    package typealias Stream =
        @Sendable (_ consume: @escaping @Sendable ([UInt8]) async -> Bool) async throws(TransferError) -> Void

    package enum Contents: Sendable {
        /// The file is open for reading, and has this path until it gets its name. `root` is the store's directory.
        case file(descriptor: Int32, path: String, root: String)
        case stream(Stream)
    }

    /// The path in the store that the file is going to have, unless it turns out to be taken.
    package let name: String
    /// `algorithm:hex` if one was required and found right.
    package let checksum: String?
    package let contents: Contents

    package init(name: String, checksum: String?, contents: Contents) {
        (self.name, self.checksum, self.contents) = (name, checksum, contents)
    }

    package var descriptor: Int32? { if case .file(let descriptor, _, _) = contents { descriptor } else { nil } }
}
