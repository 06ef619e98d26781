package import HaulContract

/// Why a transfer, or a call on its file, did not go to its end.
package enum TransferError: Error, Sendable, Equatable {
    /// The message holds no query string and no credentials; hosts and ports are named.
    case failed(Failure)
    /// The disk, the inodes or a quota are used up: nothing is wrong with the job, which waits until there is room.
    case noSpace
    /// `cancel()` was called, the `Transfer` was dropped, or the task that waited was cancelled.
    case cancelled

    package init(_ code: ErrorCode, _ message: String, isFinal: Bool = false) {
        self = .failed(Failure(code, message, isFinal: isFinal))
    }
}
