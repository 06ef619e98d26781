package import Contract

/// Why a transfer did not go to its end.
package enum TransferError: Error, Sendable {
    case failed(Failure)
    /// The disk is full (or out of inodes, or over quota): nothing is wrong with the job.
    case noSpace
    case cancelled
}
