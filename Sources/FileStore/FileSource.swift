import CHaulLinux
import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage

/// A file beneath a directory that is being sent. It is closed with its last reference.
final class FileSource: SourceFile {
    let version: SourceVersion
    private let descriptor: Int32
    private let path: String
    private let root: Directory
    private let blocking: BlockingPool

    /// Blocks the calling thread.
    init(_ path: String, in root: Directory, on blocking: BlockingPool) throws(TransferError) {
        descriptor = Self.open(path, in: root)
        let code = errno
        guard descriptor >= 0 else { throw Self.refusal(path, code) }
        (self.path, self.root, self.blocking) = (path, root, blocking)
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw TransferError(
                .badJob, "\(path) is not a regular file: a directory, a pipe or a device cannot be sent")
        }
        version = SourceVersion(status)
    }

    deinit { close(descriptor) }

    func read(_ range: Range<Int64>) async throws(TransferError) -> [UInt8] {
        try await blocking.run { () throws(TransferError) in
            var code: Int32 = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: Int(range.upperBound - range.lowerBound)) {
                buffer, count in
                while count < buffer.count {
                    let rest = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[count...])
                    let read = pread(self.descriptor, rest.baseAddress, rest.count, Int(range.lowerBound) + count)
                    if read < 0, errno == EINTR { continue }
                    if read < 0 { code = errno }
                    guard read > 0 else { break }
                    count += read
                }
            }
            if code != 0 { throw TransferError(file: "the file \(self.path) cannot be read", code) }
            guard bytes.count == range.count else { throw self.changed }
            return bytes
        }
    }

    func check() async throws(TransferError) {
        try await blocking.run { () throws(TransferError) in
            let found = Self.open(self.path, in: self.root)
            guard found >= 0 else {
                let code = errno
                throw TransferError.isPassing(code)
                    ? TransferError(file: "the file \(self.path) cannot be read", code) : self.changed
            }
            defer { close(found) }
            var status = stat()
            guard fstat(found, &status) == 0, SourceVersion(status) == self.version else { throw self.changed }
        }
    }

    private var changed: TransferError {
        TransferError(
            .sourceChanged,
            "the file \(path) was changed, replaced or removed while it was sent; "
                + "push the job again when the file no longer changes")
    }

    /// Does not block: to open a pipe would otherwise wait for a writer.
    private static func open(_ path: String, in root: Directory) -> Int32 {
        clinux_open_beneath(root.descriptor, path, O_RDONLY | O_NONBLOCK, 0)
    }

    private static func refusal(_ path: String, _ code: Int32) -> TransferError {
        switch code {
        case ENOENT, ENOTDIR:
            TransferError(.sourceMissing, "there is no file \(path) in the directory whose files may be read")
        case ENXIO: TransferError(.badJob, "\(path) is not a regular file: a socket cannot be sent")
        default: TransferError(file: "the file \(path) cannot be read", code)
        }
    }
}

extension SourceVersion {
    init(_ status: stat) {
        self.init(size: Int64(status.st_size), modified: status.modifiedNanoseconds, inode: UInt64(status.st_ino))
    }
}
