import CHaulLinux
import Glibc
import HaulContract
import HaulHTTP

/// A lock that is held while a file gets its name, if that takes a check and then a rename. It ends with its last
/// reference, and with its process. Workers wait only for the same name, so a frozen worker holds up no others.
final class NameLock: Sendable {
    private let descriptor: Int32

    static let fileName = "\(HiddenName.prefix)lock"
    private static let patience: Duration = .seconds(10)

    /// Waits for the lock of `path` in the store with this root. A file system without locks gives none. Blocks.
    ///
    /// - Throws: `io` if another worker holds the lock for longer than `patience`.
    init(of path: String, in root: Directory) throws(TransferError) {
        descriptor = openat(root.descriptor, Self.fileName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o666)
        guard descriptor >= 0 else { throw TransferError(file: Self.failed, errno) }
        let position = off_t(path.utf8.reduce(5381 as UInt32) { $0 &* 33 ^ UInt32($1) })
        let limit = ContinuousClock.now + Self.patience
        while true {
            let code = clinux_lock_byte(descriptor, position)
            guard code == EAGAIN || code == EACCES else { return }
            guard .now < limit else {
                // `deinit` closes the file: all properties are set.
                throw .failed(
                    Failure(
                        .io,
                        "another worker has been giving a file the name \(path) for \(Self.patience): check whether it is frozen"
                    ))
            }
            usleep(2000)
        }
    }

    deinit {
        clinux_unlock_bytes(descriptor)
        close(descriptor)
    }

    private static let failed = "the lock of the root cannot be opened"
}
