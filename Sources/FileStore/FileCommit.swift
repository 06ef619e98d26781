import HaulHTTP
import HaulStorage

/// The last steps of a received file: its bytes go to the disk, then it gets its name. The steps are separate, so that
/// many files can take each step together.
struct FileCommit: Sendable {
    /// All bytes are in the file and correct. Not synced.
    struct Written: Sendable {
        let output: OutputFile
        let checksum: String?
        /// Attributes were set, so that a sync of the bytes alone is not enough.
        let hasAttributes: Bool

        /// Blocks the calling thread.
        func sync() throws(TransferError) { try output.sync(attributes: hasAttributes) }
    }

    /// The file has its name, or will get none. Not synced.
    struct Named: Sendable {
        let outcome: CommitOutcome
        /// The directory of the new name; nil if there is no new name.
        var directory: Directory?
        /// Set if the file has replaced the one that its job finished before. It is to be the job's only file.
        var successor: HiddenFile?
        /// False if the process has stood still for so long that a later run may have a file here.
        var mayUnlinkOthers: @Sendable () -> Bool = { true }

        /// To be called once the name is durable. Blocks.
        func end() -> CommitOutcome {
            if let successor, mayUnlinkOthers() { successor.unlinkOthers() }
            return outcome
        }
    }

    enum End: Sendable {
        case ended(CommitOutcome)
        /// By our own clock the lease may have expired, so Redis must be asked before the file gets its name. Or the
        /// operator's gate must see it first.
        case unsure(Written)
    }

    let durability: Durability
    /// Writes all bytes to the file, and checks them. Blocks.
    let write: @Sendable () throws(TransferError) -> Written
    /// Whether the lease is certainly valid, and there is no gate.
    let mayName: @Sendable () -> Bool
    /// Gives the file its name. Blocks.
    let name: @Sendable (Written) throws(TransferError) -> Named

    /// All steps, for this file alone. Blocks.
    func run() throws(TransferError) -> End {
        let written = try write()
        try written.sync()
        return mayName() ? .ended(try finish(written)) : .unsure(written)
    }

    /// The remaining steps of a file whose bytes are durable. Blocks.
    func finish(_ written: Written) throws(TransferError) -> CommitOutcome {
        let named = try name(written)
        if durability == .disk { try named.directory?.sync() }
        return named.end()
    }
}
