package import HaulContract

/// Why a transfer, or a call on its file, did not finish.
package enum TransferError: Error, Sendable, Equatable {
    /// The message has no query string and no credentials. It does name hosts and ports.
    case failed(Failure)
    /// The disk, its inodes or a quota are used up. The job is not at fault, and waits until there is space.
    case noSpace
    /// `cancel()` was called, the `Transfer` was dropped, or the task that waited was cancelled.
    case cancelled

    package init(_ code: ErrorCode, _ message: String, isFinal: Bool = false) {
        self = .failed(Failure(code, message, isFinal: isFinal))
    }
}
