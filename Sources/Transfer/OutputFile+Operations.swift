import CLinux
package import Contract
import Executors
import Glibc
import Synchronization

/// What blocks, and so runs on the write path's own threads.
extension OutputFile {
    /// Makes what has been received durable and returns what is: half-filled blocks are handed over, everything handed
    /// over until now is waited for, and the file is synced. Never ahead of the disk. With durability `.process` it
    /// returns what is written, without a sync.
    @discardableResult
    package func checkpoint() async throws(TransferError) -> ByteIntervals {
        for writer in state.withLock({ $0.writers }) { writer.handOver() }
        await waitForQueue()
        if let error { throw error }
        let (written, durable) = state.withLock { ($0.written, $0.durable) }
        guard written != durable else { return durable }
        if durability == .disk {
            try await onDisk("sync") { fdatasync($0) == 0 ? 0 : errno }
        }
        state.withLock { $0.durable = written }
        return written
    }

    /// Reserves room for a file of `size` bytes, without changing its length, so that a full disk is found before the
    /// download instead of during it.
    ///
    /// - Parameter keepFree: Bytes that must stay free on the file system.
    /// - Throws: `.noSpace` if there is no room now, `too_large` if there never can be.
    package func reserve(_ size: Int64, keepFree: Int64 = 0) async throws(TransferError) {
        try await onDisk("reserve", fatal: false) { descriptor in
            var volume = statvfs()
            var file = stat()
            guard fstatvfs(descriptor, &volume) == 0, fstat(descriptor, &file) == 0 else { return errno }
            let unit = Int64(volume.f_frsize)
            // Some file systems (NFS, FUSE) report no blocks at all.
            if volume.f_blocks > 0 {
                guard size <= Int64(volume.f_blocks) * unit else { return EFBIG }
                let missing = max(0, size - Int64(file.st_blocks) * 512)
                guard Int64(volume.f_bavail) * unit >= missing + keepFree else { return ENOSPC }
            }
            switch clinux_reserve(descriptor, Int(size)) {
            case 0, EOPNOTSUPP, ENOSYS: return 0
            case let error:
                // What a failed reservation got so far stays with the file: it may be the last of the disk.
                ftruncate(descriptor, file.st_size)
                return error
            }
        }
    }

    /// Sets the length: before the file gets its name, or else the reservation beyond it stays.
    package func truncate(to size: Int64) async throws(TransferError) {
        try await onDisk("truncate", fatal: false) { ftruncate($0, Int(size)) == 0 ? 0 : errno }
    }

    /// The hexadecimal digest of the first `size` bytes, all of which must be written. Costs little if the digest given at
    /// the start has run along with the download; what it has not seen is read back.
    package func digest(_ algorithm: Job.Checksum.Algorithm, size: Int64) async throws(TransferError) -> String {
        let running: RunningDigest
        if let digest, digest.algorithm == algorithm {
            running = digest
        } else {
            running = RunningDigest(algorithm, path: path)
        }
        await running.idle()
        return try await path.blocking.run { () throws(TransferError) in
            try running.finish(reading: self.descriptor, to: size, dropCache: self.durability == .disk)
        }
    }

    /// Waits until every block handed over so far is written or given up.
    private func waitForQueue() async {
        await withCheckedContinuation { continuation in
            let done = state.withLock { state in
                guard state.completed < state.submitted else { return true }
                state.waiting.append((state.submitted, continuation))
                return false
            }
            if done { continuation.resume() }
        }
    }

    /// Runs a call that returns 0 or an errno. A fatal error stays with the file.
    private func onDisk(
        _ operation: String, fatal: Bool = true, _ call: @escaping @Sendable (Int32) -> Int32
    ) async throws(TransferError) {
        let systemError = await path.blocking.run { call(self.descriptor) }
        guard systemError != 0 else { return }
        let error = TransferError(operation, systemError)
        if fatal { fail(error) }
        throw error
    }
}
