import Glibc
import HaulContract
package import HaulHTTP

/// An errno about a file as an error code of the contract.
extension TransferError {
    /// - Parameter what: The beginning of the sentence: "the file cannot be written".
    package init(file what: String, _ systemError: Int32) {
        let reason = String(cString: strerror(systemError))
        self =
            switch systemError {
            case ENOSPC, EDQUOT: .noSpace
            case EFBIG:
                Self(.tooLarge, "\(what): it is larger than the file system, or a limit of this process, allows")
            // The kernel also reports this for an absolute link, wherever it leads (RESOLVE_BENEATH of openat2(2)).
            case EXDEV: Self(.pathForbidden, "\(what): a link leads out of the root, or is not a relative one")
            case ELOOP: Self(.pathForbidden, "\(what): a link is in its place, or links lead in a circle")
            case EACCES, EPERM, EROFS:
                Self(.permission, "\(what): \(reason); see who owns it and what this worker runs as")
            case ENOTDIR: Self(.fileExists, "\(what): a file of that name is in the way")
            case ENAMETOOLONG: Self(.badJob, "\(what): \(reason)")
            case EMFILE, ENFILE, ENOMEM: Self(.localLimit, "\(what): \(reason)")
            default: Self(.io, "\(what): \(reason); look at the disk and the system's log")
            }
    }
}
