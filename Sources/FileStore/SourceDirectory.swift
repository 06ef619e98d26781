import Glibc
package import HaulContract
import HaulExecutors
package import HaulHTTP
package import HaulStorage

/// A directory beneath which files may be read and sent. It need not be writable, and is not a store.
package struct SourceDirectory: SourceFolder {
    private static let blocking = BlockingPool(name: "source", limit: 16)

    private let path: String
    private let folder: String

    /// Blocks the calling thread.
    ///
    /// - Parameter folder: Only the files in this folder of the directory may be read; "" for all.
    /// - Throws: `io` with a sentence for the operator if it is not a directory that this process may read.
    package init(_ path: String, folder: String = "") throws(Failure) {
        (self.path, self.folder) = (path, folder)
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            let reason = String(cString: strerror(errno))
            throw Failure(.io, "\(path) is not a directory whose files this process can read: \(reason)")
        }
        close(descriptor)
    }

    package func source(_ path: String) async throws(TransferError) -> any SourceFile {
        try await Self.blocking.run { () throws(TransferError) in
            guard let directory = try self.open().openExisting(self.folder) else {
                throw TransferError(
                    .sourceMissing, "the directory whose files may be read has no folder \(self.folder)")
            }
            return try FileSource(path, in: directory, on: Self.blocking)
        }
    }

    /// It is opened for each file, because its file system may have been mounted again meanwhile.
    private func open() throws(TransferError) -> Directory {
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw TransferError(file: "the directory of the files cannot be opened", errno)
        }
        return Directory(owning: descriptor)
    }
}
