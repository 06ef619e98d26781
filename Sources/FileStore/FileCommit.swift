import HaulHTTP
import HaulStorage

/// The last steps of a file that has come: its bytes on the disk, then its name. They are apart, so that many files can take
/// each of them together.
struct FileCommit: Sendable {
    /// All bytes are in the file, and right. Not synced.
    struct Written: Sendable {
        let output: OutputFile
        let checksum: String?
        /// It has been given more than its bytes.
        let hasAttributes: Bool

        /// Blocks.
        func sync() throws(TransferError) { try output.sync(attributes: hasAttributes) }
    }

    /// The file has its name, or will get none. Not synced.
    struct Named: Sendable {
        let outcome: CommitOutcome
        /// Of the new name; nil if there is none.
        var directory: Directory?
        /// Has replaced the file that its job finished before, and is to be the job's only one.
        var successor: HiddenFile?

        /// Once the name is durable. Blocks.
        func end() -> CommitOutcome {
            successor?.unlinkOthers()
            return outcome
        }
    }

    enum End: Sendable {
        case ended(CommitOutcome)
        /// By our own clock the lease may have lapsed: Redis is to be asked before the file gets its name.
        case unsure(Written)
    }

    let durability: Durability
    /// Brings all bytes into the file, and checks them. Blocks.
    let write: @Sendable () throws(TransferError) -> Written
    /// Whether the lease certainly stands.
    let mayName: @Sendable () -> Bool
    /// Gives the file its name. Blocks.
    let name: @Sendable (Written) throws(TransferError) -> Named

    /// All steps, for this file alone. Blocks.
    func run() throws(TransferError) -> End {
        let written = try write()
        try written.sync()
        return mayName() ? .ended(try finish(written)) : .unsure(written)
    }

    /// What is left to do for a file whose bytes are durable. Blocks.
    func finish(_ written: Written) throws(TransferError) -> CommitOutcome {
        let named = try name(written)
        if durability == .disk { try named.directory?.sync() }
        return named.end()
    }
}
