package import Contract
import Glibc

/// Why a transfer, or a call on its file, did not go to its end.
package enum TransferError: Error, Sendable, Equatable {
    /// The message holds no query string and no credentials; hosts and ports are named.
    case failed(Failure)
    /// The disk, the inodes or a quota are used up: nothing is wrong with the job, which waits until there is room.
    case noSpace
    /// `cancel()` was called, the `Transfer` was dropped, or the task that waited was cancelled.
    case cancelled

    init(_ code: ErrorCode, _ message: String) { self = .failed(Failure(code, message)) }

    /// A call on the file failed. `operation` is what was being done: write, sync, reserve, read, truncate.
    init(_ operation: String, _ systemError: Int32) {
        let reason = String(cString: strerror(systemError))
        self =
            switch systemError {
            case ENOSPC, EDQUOT: .noSpace
            case EFBIG: .failed(Failure(.tooLarge, "the file is larger than the file system takes"))
            case EROFS, EACCES, EPERM: .failed(Failure(.permission, "cannot \(operation) the file: \(reason)"))
            default:
                .failed(Failure(.io, "cannot \(operation) the file: \(reason); look at the disk and the system's log"))
            }
    }
}
