import Glibc
import HaulContract
package import HaulHTTP

/// An errno about a file as an error code of the contract.
extension TransferError {
    /// - Parameter what: The start of the sentence, such as "the file cannot be written".
    package init(file what: String, _ systemError: Int32) {
        let reason = String(cString: strerror(systemError))
        self =
            switch systemError {
            case ENOSPC, EDQUOT: .noSpace
            case EFBIG: Self.tooLarge(what)
            // The kernel also reports this for an absolute link, wherever it leads (RESOLVE_BENEATH of openat2(2)).
            case EXDEV: Self(.pathForbidden, "\(what): a link leads out of the root, or is not a relative one")
            case ELOOP: Self(.pathForbidden, "\(what): it is a symbolic link, or the links form a loop")
            case EACCES, EPERM, EROFS:
                Self(.permission, "\(what): \(reason); check its owner, and the user of this worker")
            case ENOTDIR: Self(.fileExists, "\(what): a file with that name exists")
            case ENAMETOOLONG: Self(.badJob, "\(what): \(reason)")
            case EMFILE, ENFILE, ENOMEM: Self(.localLimit, "\(what): \(reason)")
            default: Self(.io, "\(what): \(reason); check the disk and the system's log")
            }
    }

    private static func tooLarge(_ what: String) -> Self {
        var failure = Failure(
            .tooLarge,
            "\(what): it is larger than the file system, or a limit of this process, allows; a worker with more space may complete the job"
        )
        failure.dependsOnWorker = true
        return .failed(failure)
    }

    /// Whether an errno says that this machine cannot open a file now, and nothing about the file. Such a file must not be
    /// taken for one that is missing or has changed. The last four are those of a network or FUSE mount that has lost its
    /// server.
    static func isPassing(_ systemError: Int32) -> Bool {
        [EMFILE, ENFILE, ENOMEM, EIO, ESTALE, ENOTCONN, ECONNABORTED, ETIMEDOUT, EHOSTDOWN].contains(systemError)
    }
}
