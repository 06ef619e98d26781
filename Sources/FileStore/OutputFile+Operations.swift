import CHaulLinux
import Glibc
package import HaulContract
import HaulExecutors
package import HaulHTTP
import Synchronization

/// What blocks, and so runs on the write path's own threads.
extension OutputFile {
    /// Makes what has been received durable and returns what is: half-filled blocks are handed over, everything handed
    /// over until now is waited for, and the file is synced. Never ahead of the disk. With durability `.process` it
    /// returns what is written, without a sync.
    @discardableResult
    package func checkpoint() async throws(TransferError) -> ByteIntervals {
        try await checkpoint { $0 }
    }

    /// A checkpoint, and what `body` makes of what is durable then. It may block.
    package func checkpoint<T: Sendable>(
        _ body: @escaping @Sendable (ByteIntervals) -> T
    ) async throws(TransferError) -> T {
        for writer in state.withLock({ $0.writers }) { writer.handOver() }
        await waitForQueue()
        return try await path.blocking.run { () throws(TransferError) in
            if let error = self.error { throw error }
            let (written, durable) = self.state.withLock { ($0.written, $0.durable) }
            if written != durable {
                if self.durability == .disk { try self.sync { self.path.sync(self.descriptor) } }
                self.state.withLock { $0.durable = written }
            }
            return body(written)
        }
    }

    /// Sees that there is room for a file of `size` bytes, so that a full disk is found before the download instead of
    /// during it, and reserves it, without changing the file's length. A file of one block is only seen to. Blocks.
    ///
    /// - Parameter size: nil if it is not known. Then, and where nothing can be reserved, each block is seen to.
    /// - Parameter keepFree: Bytes that must stay free on the file system.
    /// - Throws: `.noSpace` if there is no room now, `too_large` if there never can be.
    package func reserve(_ size: Int64?, keepFree: Int64 = 0) throws(TransferError) {
        if size == nil { keptFree.store(keepFree, ordering: .relaxed) }
        let size = size ?? 0
        var volume = statvfs()
        var file = stat()
        guard fstatvfs(descriptor, &volume) == 0, fstat(descriptor, &file) == 0 else {
            throw TransferError(file: Self.noReservation, errno)
        }
        let unit = Int64(volume.f_frsize)
        // Some file systems (NFS, FUSE) report no blocks at all.
        if volume.f_blocks > 0 {
            guard size <= Int64(volume.f_blocks) * unit else { throw TransferError(file: Self.noReservation, EFBIG) }
            let missing = max(0, size - Int64(file.st_blocks) * 512)
            guard Int64(volume.f_bavail) * unit >= missing + keepFree else {
                throw TransferError(file: Self.noReservation, ENOSPC)
            }
        }
        guard size > Block.smallSize else { return }
        switch clinux_reserve(descriptor, Int(size)) {
        case 0: return
        case EOPNOTSUPP, ENOSYS: keptFree.store(keepFree, ordering: .relaxed)
        case let error:
            // What a failed reservation got so far stays with the file: it may be the last of the disk.
            ftruncate(descriptor, file.st_size)
            throw TransferError(file: Self.noReservation, error)
        }
    }

    /// Whether so many more bytes leave what must stay free. Blocks.
    func hasRoom(for count: Int) -> Bool {
        let kept = keptFree.load(ordering: .relaxed)
        var volume = statvfs()
        guard kept > 0, fstatvfs(descriptor, &volume) == 0, volume.f_blocks > 0 else { return true }
        return Int64(volume.f_bavail) * Int64(volume.f_frsize) >= kept + Int64(count)
    }

    private static let noReservation = "the file cannot be given its room"

    /// Writes the first bytes of a file, all at once. Blocks.
    package func write(_ bytes: [UInt8]) throws(TransferError) {
        if let systemError = bytes.withUnsafeBytes({ bytes in
            bytes.isEmpty ? nil : path.writeAll(descriptor, bytes.baseAddress!, bytes.count, at: 0)
        }) {
            let error = TransferError(file: "the file cannot be written", systemError)
            fail(error)
            throw error
        }
        state.withLock { $0.written.insert(0..<Int64(bytes.count)) }
    }

    /// Gives back what was reserved beyond the file's `size` bytes, once all of them are written. Blocks.
    package func cut(to size: Int64) throws(TransferError) {
        if let error { throw error }
        guard ftruncate(descriptor, Int(size)) == 0 else {
            throw TransferError(file: "the file cannot be cut to its size", errno)
        }
    }

    /// Whether all of its `size` bytes are there still, as far as it shows: who cuts a file short that is being written leaves
    /// it too short, or with a hole. Only on file systems that make none of their own. Blocks.
    func isWhole(_ size: Int64) -> Bool {
        var status = stat()
        guard fstat(descriptor, &status) == 0, Int64(status.st_size) == size else { return false }
        guard Int64(status.st_blocks) * 512 < size, Volume.isLocal(descriptor) else { return true }
        return clinux_first_hole(descriptor) >= size
    }

    /// Syncs what is written, and with `attributes` all else that the file has, as its durability asks. Blocks.
    package func sync(attributes: Bool = false) throws(TransferError) {
        if durability == .disk {
            try sync { attributes ? (fsync(descriptor) == 0 ? 0 : errno) : path.sync(descriptor) }
        } else if let error {
            throw error
        }
        state.withLock { $0.durable = $0.written }
    }

    /// What is written is durable: the whole file system has been synced. That tells of data that were lost once only, and
    /// so perhaps when it was asked to sync others; but the file still knows. Blocks.
    package func confirmSync() throws(TransferError) {
        try sync { clinux_wait_for_writeback(descriptor) }
        state.withLock { $0.durable = $0.written }
    }

    /// Returns when the digest given at the start has seen all that it will see of what has been written.
    package func digestCaughtUp() async { await digest?.idle() }

    /// The hexadecimal digest of the first `size` bytes, all of which must be written. Costs little if the digest given at
    /// the start has caught up; what it has not seen is read back. Blocks.
    package func digest(_ algorithm: Job.Checksum.Algorithm, size: Int64) throws(TransferError) -> String {
        let running = digest.flatMap { $0.algorithm == algorithm ? $0 : nil } ?? RunningDigest(algorithm, path: path)
        return try running.finish(reading: descriptor, to: size, dropCache: durability == .disk)
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
}
