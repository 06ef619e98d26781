import CHaulLinux
import Glibc

/// What file systems support.
enum Volume {
    /// ext2 to ext4, XFS, Btrfs and tmpfs (statfs(2)). They make the entries of a directory one at a time, however many
    /// threads ask, and syncfs(2) makes all of their files and directories durable. Nothing is assumed of others: over
    /// a network many threads are faster, and FUSE does not pass syncfs on.
    private static let local: Set<UInt32> = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994]

    /// Whether syncfs reports data that could not be written: since Linux 5.8.
    private static let reportsSyncErrors: Bool = {
        var system = utsname()
        uname(&system)
        let release = withUnsafeBytes(of: &system.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        let version = release.split(separator: ".").prefix(2).compactMap { Int($0.prefix { $0.isNumber }) }
        return version.count == 2 && (version[0], version[1]) >= (5, 8)
    }()

    /// The maximum data of other programs that may be written along with ours: bytes.
    private static let maxDirty = 128 << 20

    static func isLocal(_ descriptor: Int32) -> Bool {
        local.contains(UInt32(truncatingIfNeeded: clinux_file_system(descriptor)))
    }

    /// Makes everything that was written to the file system of `descriptor` durable. False if that failed, or was not
    /// tried, because it is not supported or would take long since other programs have written much.
    static func sync(_ descriptor: Int32) -> Bool {
        reportsSyncErrors && isLocal(descriptor) && dirtyBytes < maxDirty && clinux_sync_file_system(descriptor) == 0
    }

    /// Bytes that this system has yet to write to its disks; the largest number if that cannot be read.
    private static var dirtyBytes: Int {
        let file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return .max }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 1024)
        let count = read(file, &bytes, bytes.count)
        var sum: Int?
        for line in bytes.prefix(max(0, count)).split(separator: UInt8(ascii: "\n")) {
            let words = line.split(separator: UInt8(ascii: " ")).map { String(decoding: $0, as: UTF8.self) }
            guard words.count > 1, ["Dirty:", "Writeback:"].contains(words[0]), let kibibytes = Int(words[1]) else {
                continue
            }
            sum = (sum ?? 0) + kibibytes << 10
        }
        return sum ?? .max
    }
}

/// The space of a file system, whatever it reports.
extension statvfs {
    /// Bytes that this process may still write. A file system that is filled beyond its quota reports less than none: a
    /// number from the upper half of 64 bits, as df(1) reads it, too.
    var availableBytes: Int64 {
        let (bytes, isTooMuch) = UInt64(f_bavail).multipliedReportingOverflow(by: UInt64(f_frsize))
        return isTooMuch ? 0 : Int64(exactly: bytes) ?? 0
    }

    /// Bytes of the whole file system.
    var totalBytes: Int64 {
        let (bytes, isTooMuch) = UInt64(f_blocks).multipliedReportingOverflow(by: UInt64(f_frsize))
        return isTooMuch ? .max : Int64(clamping: bytes)
    }
}
