import Glibc
import HaulHTTP

/// Proves that a file is its job's own where there are no hard links: a small file with the final name, and with the
/// size and time of the finished file. It is valid once the partial file's name is gone.
struct PlacementRecord {
    let name: String
    private let size: Int64
    private let modified: Int64

    init(of status: stat, as name: String) {
        (self.name, size, modified) = (name, Int64(status.st_size), status.modifiedNanoseconds)
    }

    /// nil if there is no record that can be read.
    init?(at path: String, in directory: Directory) {
        let descriptor = openat(directory.descriptor, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 512)
        let length = read(descriptor, &bytes, bytes.count)
        let parts = String(decoding: bytes.prefix(max(0, length)), as: UTF8.self)
            .split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let size = Int64(parts[0]), let modified = Int64(parts[1]) else { return nil }
        (name, self.size, self.modified) = (String(parts[2]), size, modified)
    }

    /// Whether the record is about this file. Not by inode, since a file system without links may renumber its files.
    func matches(_ status: stat) -> Bool { status.st_size == size && status.modifiedNanoseconds == modified }

    /// Writes the record. If `isDurable`, syncs the record and its name, so that they are durable before the file's
    /// final name can be. Blocks.
    func write(at path: String, in directory: Directory, isDurable: Bool) throws(TransferError) {
        let descriptor = openat(
            directory.descriptor, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw TransferError(file: Self.failed, errno) }
        defer { close(descriptor) }
        let bytes = Array("\(size) \(modified) \(name)".utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count, !isDurable || fsync(descriptor) == 0 else {
            throw TransferError(file: Self.failed, errno)
        }
        if isDurable { try directory.sync() }
    }

    private static let failed = "the placement record of the finished file cannot be written"
}
