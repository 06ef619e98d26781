import CHaulLinux
import Glibc
package import HaulContract
import HaulExecutors
package import HaulHTTP
import Synchronization

/// Operations that block. They run on the writer's own threads.
extension OutputFile {
    /// Makes the received bytes durable and returns what is durable. Hands over half-filled blocks, waits for
    /// everything that was handed over so far, and syncs the file. So the result is never ahead of the disk. With
    /// durability `.process` it returns what is written, without a sync.
    @discardableResult
    package func checkpoint() async throws(TransferError) -> ByteIntervals {
        try await checkpoint { $0 }
    }

    /// Makes a checkpoint and passes what is durable to `body`, which may block.
    package func checkpoint<T: Sendable>(
        _ body: @escaping @Sendable (ByteIntervals) -> T
    ) async throws(TransferError) -> T {
        for writer in state.withLock({ $0.writers }) { writer.handOver() }
        await waitForQueue()
        return try await diskWriter.blocking.run { () throws(TransferError) in
            let (written, durable) = self.state.withLock { ($0.written, $0.durable) }
            // Afterwards, because a reservation that failed may cut off what is written later.
            if let error = self.error { throw error }
            if written != durable {
                if self.durability == .disk { try self.sync { self.diskWriter.sync(self.descriptor) } }
                self.state.withLock { $0.durable = written }
            }
            return body(written)
        }
    }

    /// Checks that there is space for a file of `size` bytes, so that a full disk is found before the download and not
    /// during it. Reserves the first part without changing the file's length (see `Reservation`), unless the file fits
    /// into a small block. Blocks.
    ///
    /// - Parameter size: nil if it is not known. Then, and if nothing can be reserved, the space is checked for each
    ///   block.
    /// - Parameter minFree: Bytes that must stay free on the file system.
    /// - Throws: `.noSpace` if there is not enough space now, `too_large` if there never can be.
    package func reserve(_ size: Int64?, minFree: Int64 = 0) throws(TransferError) {
        if size == nil { checkedMinFree.store(minFree, ordering: .relaxed) }
        let size = size ?? 0
        let (volume, allocated) = try space()
        if let volume {
            guard size <= volume.total else { throw TransferError(file: Self.noReservation, EFBIG) }
            guard volume.free - minFree >= max(0, size - allocated) else {
                throw TransferError(file: Self.noReservation, ENOSPC)
            }
        }
        guard size > Block.smallSize else { return }
        let arrived = written.count
        let first = Reservation.targetEnd(of: size, arrived: arrived, free: volume?.free)
        reservation.withLock { $0 = Reservation(size: size, arrived: arrived, reservedEnd: first, minFree: minFree) }
        if let systemError = reserve(upTo: first, minFree: minFree) {
            throw TransferError(file: Self.noReservation, systemError)
        }
    }

    /// Records that `count` more bytes are about to be written, and reserves a further part if it is due. Blocks.
    ///
    /// - Returns: An errno; ENOSPC if the file system has no space for the further part.
    func reserveAhead(of count: Int) -> Int32? {
        let due: Reservation? = reservation.withLock { reservation in
            reservation.arrived += Int64(count)
            guard reservation.isDue else { return nil }
            // No other thread reserves the same part.
            defer { reservation.reservedEnd = .max }
            return reservation
        }
        guard let due else { return nil }
        let free = (try? space())?.volume?.free
        let end = Reservation.targetEnd(of: due.size, arrived: due.arrived, free: free)
        if let free, free - due.minFree < end - due.reservedEnd { return ENOSPC }
        if let systemError = reserve(upTo: end, minFree: due.minFree) { return systemError }
        reservation.withLock { if $0.reservedEnd == .max { $0.reservedEnd = end } }
        return nil
    }

    private func reserve(upTo end: Int64, minFree: Int64) -> Int32? {
        switch clinux_reserve(descriptor, Int(end)) {
        case 0: return nil
        case EOPNOTSUPP, ENOSYS:
            checkedMinFree.store(minFree, ordering: .relaxed)
            return nil
        case let systemError:
            // A failed reservation retains what it got so far, which may be the last space of the disk. What another thread
            // writes meanwhile may be cut off as well, so no later checkpoint may count it.
            fail(TransferError(file: Self.noReservation, systemError))
            var file = stat()
            if fstat(descriptor, &file) == 0 { ftruncate(descriptor, file.st_size) }
            return systemError
        }
    }

    /// Frees the space that is reserved for bytes that have not arrived, between the written ones and behind them. To be
    /// called when this process writes no more to the file. Blocks.
    func releaseReservation() {
        reservation.withLock { $0 = Reservation() }
        var file = stat()
        let written = written
        // A file without such space keeps its times.
        guard fstat(descriptor, &file) == 0, Int64(file.st_blocks) * 512 > written.count + 1 << 20 else { return }
        // Where the file system refuses this, the space stays reserved, and nothing else is wrong.
        for gap in written.gaps(in: Int64(file.st_size)) {
            _ = clinux_release(descriptor, off_t(gap.lowerBound), off_t(gap.upperBound))
        }
        ftruncate(descriptor, file.st_size)
    }

    /// The bytes of the file system, and the bytes that the file occupies. `volume` is nil for file systems that report
    /// no blocks at all (some of NFS and FUSE).
    private func space() throws(TransferError) -> (volume: (total: Int64, free: Int64)?, allocated: Int64) {
        var volume = statvfs()
        var file = stat()
        guard fstatvfs(descriptor, &volume) == 0, fstat(descriptor, &file) == 0 else {
            throw TransferError(file: Self.noReservation, errno)
        }
        let allocated = Int64(file.st_blocks) * 512
        return (volume.f_blocks > 0 ? (volume.totalBytes, volume.availableBytes) : nil, allocated)
    }

    /// Whether `count` more bytes leave free what must stay free. Blocks.
    func hasSpace(for count: Int) -> Bool {
        let kept = checkedMinFree.load(ordering: .relaxed)
        var volume = statvfs()
        guard kept > 0, fstatvfs(descriptor, &volume) == 0, volume.f_blocks > 0 else { return true }
        return volume.availableBytes - kept >= Int64(count)
    }

    private static let noReservation = "the space for the file cannot be reserved"

    /// Writes the first bytes of a file, all at once. Blocks.
    package func write(_ bytes: [UInt8]) throws(TransferError) {
        if let systemError = bytes.withUnsafeBytes({ bytes in
            bytes.isEmpty ? nil : diskWriter.writeAll(descriptor, bytes.baseAddress!, bytes.count, at: 0)
        }) {
            let error = TransferError(file: "the file cannot be written", systemError)
            fail(error)
            throw error
        }
        state.withLock { $0.written.insert(0..<Int64(bytes.count)) }
    }

    /// Releases what was reserved beyond the file's `size` bytes, once all of them are written. Blocks.
    package func truncate(to size: Int64) throws(TransferError) {
        if let error { throw error }
        guard ftruncate(descriptor, Int(size)) == 0 else {
            throw TransferError(file: "the file cannot be truncated to its size", errno)
        }
    }

    /// The status of the file if all `size` bytes seem to be there still. A process that truncates a file while it is
    /// written leaves it too short, or with a hole. Holes count only on file systems that make none by themselves.
    /// Blocks the calling thread.
    func statusIfWhole(_ size: Int64) -> stat? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, Int64(status.st_size) == size else { return nil }
        guard Int64(status.st_blocks) * 512 < size, Volume.isLocal(descriptor) else { return status }
        return clinux_first_hole(descriptor) >= size ? status : nil
    }

    /// When a file was last written to, and when anything of it was last changed, in nanoseconds since 1970.
    struct Times: Equatable { var written, changed: Int64 }

    /// nil if the file system does not say. Blocks for microseconds.
    var times: Times? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        return Times(written: status.modifiedNanoseconds, changed: status.changedNanoseconds)
    }

    /// Syncs what is written, and with `attributes` all other metadata, as the durability requires. Blocks.
    package func sync(attributes: Bool = false) throws(TransferError) {
        if durability == .disk {
            try sync { attributes ? (fsync(descriptor) == 0 ? 0 : errno) : diskWriter.sync(descriptor) }
        } else if let error {
            throw error
        }
        state.withLock { $0.durable = $0.written }
    }

    /// Marks what is written as durable, after a sync of the whole file system. Such a sync reports lost data only
    /// once, perhaps to another caller. But the file's own record still has the error, and is checked here. Blocks.
    package func confirmSync() throws(TransferError) {
        try sync { clinux_wait_for_writeback(descriptor) }
        state.withLock { $0.durable = $0.written }
    }

    /// Returns when the digest given at the start has hashed all blocks that it has accepted.
    package func waitForDigest() async { await digest?.waitUntilIdle() }

    /// Whether the first `size` bytes have this checksum, such as `md5:…`, when they are read again. Blocks.
    func has(_ checksum: Job.Checksum, size: Int64) throws(TransferError) -> Bool {
        let again = RunningDigest(checksum.algorithm, diskWriter: diskWriter)
        return try again.finish(reading: descriptor, to: size, dropCache: durability == .disk) == checksum.digest
    }

    /// The hexadecimal digest of the first `size` bytes, all of which must be written. Costs little if the digest given
    /// at the start has kept up. Bytes that it has not hashed are read back. Blocks.
    package func digest(_ algorithm: Job.Checksum.Algorithm, size: Int64) throws(TransferError) -> String {
        let running =
            digest.flatMap { $0.algorithm == algorithm ? $0 : nil } ?? RunningDigest(algorithm, diskWriter: diskWriter)
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
