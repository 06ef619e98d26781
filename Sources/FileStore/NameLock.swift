import CHaulLinux
import Glibc
import HaulContract
import HaulHTTP

/// A lock that is held while a file gets its name, if that takes a check and then a rename. It ends with its last
/// reference, and with its process. Workers wait only for the same name, so a frozen worker holds up no others.
///
/// A program that leaves nothing in a directory may remove the file, while it holds the locks of all names. Others that
/// have opened it before find that the file has lost its name, and open it again.
final class NameLock: Sendable {
    private let descriptor: Int32

    static let fileName = "\(HiddenName.prefix)lock"
    private static let patience: Duration = .seconds(10)

    /// Waits for the lock of `path` in the store with this root. A file system without locks gives none. Blocks.
    ///
    /// - Throws: `io` if another worker holds the lock for longer than `patience`.
    init(of path: String, in root: Directory) throws(TransferError) {
        let position = off_t(path.utf8.reduce(5381 as UInt32) { $0 &* 33 ^ UInt32($1) })
        let limit = ContinuousClock.now + Self.patience
        var descriptor = try Self.opened(in: root)
        while true {
            let code = clinux_lock_bytes(descriptor, position, 1)
            if code != EAGAIN, code != EACCES {
                if Self.isNamed(descriptor, in: root) { break }
                close(descriptor)
                descriptor = try Self.opened(in: root)
                continue
            }
            guard .now < limit else {
                close(descriptor)
                throw .failed(
                    Failure(
                        .io,
                        "another worker has been giving a file the name \(path) for \(Self.patience): check whether it is frozen"
                    ))
            }
            usleep(2000)
        }
        self.descriptor = descriptor
    }

    private static func opened(in root: Directory) throws(TransferError) -> Int32 {
        let descriptor = openat(root.descriptor, fileName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o666)
        guard descriptor >= 0 else { throw TransferError(file: failed, errno) }
        return descriptor
    }

    /// Removes the file, unless another process uses it now. Blocks.
    static func removeFile(in root: Directory) {
        let descriptor = openat(root.descriptor, fileName, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        // 0 bytes mean all that there can be.
        let code = clinux_lock_bytes(descriptor, 0, 0)
        guard code != EAGAIN, code != EACCES, isNamed(descriptor, in: root) else { return }
        root.unlink(fileName)
        clinux_unlock_bytes(descriptor, 0, 0)
    }

    private static func isNamed(_ descriptor: Int32, in root: Directory) -> Bool {
        var own = stat()
        return fstat(descriptor, &own) == 0 && root.status(of: fileName)?.st_ino == own.st_ino
    }

    deinit {
        clinux_unlock_bytes(descriptor, 0, 0)
        close(descriptor)
    }

    private static let failed = "\(fileName), the lock for names on this file system, cannot be opened"
}
