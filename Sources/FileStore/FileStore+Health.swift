import Glibc
import HaulExecutors

/// Whether the root can take more files.
extension FileStore {
    static func isFull(_ systemError: Int32) -> Bool { systemError == ENOSPC || systemError == EDQUOT }

    /// Why no job can run here now, whatever the job is; nil if nothing is wrong. Blocks.
    func faultNow() -> String? {
        guard hasSpace() else { return "the disk is full" }
        var code = directory.tryWriting()
        if code == ENOENT || code == ESTALE {
            // The root was removed, or its network file system was unmounted. If it is back, it must be opened again.
            guard reopen() else { return "the root is gone: restore it, or restart with another root" }
            code = directory.tryWriting()
        }
        switch code {
        case 0: return nil
        case _ where Self.isFull(code): return "the disk is full"
        default: return "the root cannot be written: \(String(cString: strerror(code)))"
        }
    }

    package struct Space: Sendable {
        /// Bytes that downloads may use.
        package let free: Int64
        /// Bytes of the whole file system.
        package let size: Int64
    }

    /// The space of the file system; nil if the file system does not report it.
    package func space() async -> Space? {
        await diskWriter.blocking.run {
            var status = statvfs()
            guard fstatvfs(self.directory.descriptor, &status) == 0 else { return nil }
            return Space(free: max(0, status.availableBytes - self.options.minFree), size: status.totalBytes)
        }
    }

    /// The memory between the network and the disk, used or not: bytes.
    package var blockBytes: Int { diskWriter.pool.bytes }

    /// Whether the minimum of space and an inode are free.
    private func hasSpace() -> Bool {
        var status = statvfs()
        guard fstatvfs(directory.descriptor, &status) == 0 else { return true }
        return status.availableBytes >= options.minFree && (status.f_files == 0 || status.f_favail > 0)
    }
}
