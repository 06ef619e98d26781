import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTerminal

extension UnrecordedFile {
    /// A file as it is.
    struct Status: Equatable {
        let size: Int64
        let seconds: Int64
        let nanoseconds: Int64
        let inode: UInt64
        let isFile: Bool
        /// When the inode was changed last: seconds since 1970.
        let changed: Int64

        /// The file has a date of whole seconds, as HTTP sends it, and got it within a minute of that date.
        var hasWeakServerDate: Bool { nanoseconds == seconds &* 1_000_000_000 && changed &- seconds < 60 }

        /// Whether this is the file as it was recorded. A store without lasting inodes records a substitute for them,
        /// whose highest bit is set.
        func matches(_ file: CompletedFile) -> Bool {
            file.bytes == size && file.modified == nanoseconds && (file.inode == inode || file.inode >> 63 == 1)
        }

        /// For messages: `1.2 MiB of 22 Nov 2026`.
        var summary: String { "\(Units.bytes(size)) of \(HTTPDate.text(seconds).dropFirst(5).dropLast(13))" }

        /// The size of another file, for messages that have this one's: `1.2 MB`, or `1 B more` where both look the same.
        func other(_ other: Int64) -> String {
            let text = Units.bytes(other)
            guard text == Units.bytes(size), other != size else { return text }
            return other > size ? "\(Units.bytes(other - size)) more" : "\(Units.bytes(size - other)) less"
        }
    }

    /// SEEK_HOLE, which Glibc's module leaves out.
    private static let seekHole: Int32 = 4

    /// Whether the file is sparse. A program leaves holes if it reserves space, or writes at several offsets. Blocks.
    static func hasHoles(_ path: String, size: Int64) -> Bool {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let hole = lseek(descriptor, 0, seekHole)
        return hole >= 0 && hole < size
    }

    static func isLink(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    static func status(_ path: String) -> Status? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        let seconds = Int64(status.st_mtim.tv_sec)
        return Status(
            size: Int64(status.st_size), seconds: seconds,
            nanoseconds: seconds &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec), inode: UInt64(status.st_ino),
            isFile: status.st_mode & S_IFMT == S_IFREG, changed: Int64(status.st_ctim.tv_sec))
    }
}
