import CHaulLinux
import Glibc
package import HaulContract
import HaulExecutors
package import HaulHTTP
package import HaulStorage
import Synchronization

/// What it takes for bytes of a file to be durable.
package enum Durability: String, Sendable, CaseIterable {
    /// The bytes survive a power cut: they are synced before they are reported.
    case disk
    /// The bytes survive this process: they may still be in the page cache.
    case process
}

/// A file that any number of transfers write at once, in blocks at offsets.
///
/// Blocks on their way are in the file's queue. `written` is what `pwrite` has written, `durable` what a checkpoint has
/// synced. The file is closed with its last reference. The first error stays: later blocks are given up, and every call
/// throws it. After a failed sync the file must be opened again and continued from `durable`, since the kernel may have
/// dropped pages and marked them clean.
package final class OutputFile: BodyDestination {
    struct State: Sendable {
        var written: ByteIntervals
        var durable: ByteIntervals
        /// A second descriptor, which writes past the page cache. Closed with the file, since a writer may be using it.
        var direct: Int32?
        var isDirectPossible = true
        var writers: [FileWriter] = []
        /// Blocks that wait for a thread, and the number of threads that work on them.
        var queue = Deque<QueuedBlock>()
        var threads = 0
        /// The numbers of blocks ever handed over and done. A checkpoint waits until the second reaches the first.
        var submitted = 0
        var completed = 0
        var waiting: [(until: Int, continuation: CheckedContinuation<Void, Never>)] = []
        /// Bytes written through the page cache since it was last dropped.
        var cached: Int64 = 0
        /// The first error of a write or sync.
        var failure: TransferError?
    }

    struct QueuedBlock: Sendable {
        let block: Block
        let writer: FileWriter
    }

    /// Blocks that a thread writes before other files have their turn.
    private static let turn = 8
    /// After this many bytes through the page cache, the bytes are written back and dropped from it.
    private static let cacheLimit: Int64 = 64 << 20

    package let descriptor: Int32
    package let durability: Durability
    let diskWriter: DiskWriter
    let state: Mutex<State>
    let digest: RunningDigest?
    /// Bytes that come in order are hashed while they are written.
    package var hasDigest: Bool { digest != nil }
    /// Whether `state` has a failure. Pieces of a body read this too often for a lock.
    private let hasFailed = Atomic(false)
    /// Bytes that must stay free on the file system while bytes without a reservation are written.
    let checkedMinFree = Atomic<Int64>(0)
    let reservation = Mutex(Reservation())
    private let syncing = Mutex(())
    private let writePermit: @Sendable () -> WritePermit
    /// How long a block waits until the permit to write is asked for again.
    private static let permitPause = Duration.milliseconds(20)

    /// - Parameters:
    ///   - descriptor: Open for reading and writing, without O_DIRECT and O_APPEND. The file owns it from now on.
    ///   - written: The bytes that are durable already.
    ///   - digest: Computed over the bytes that come in order from byte 0, while they are written.
    ///   - writePermit: Asked before each block is written.
    package init(
        descriptor: Int32, diskWriter: DiskWriter, durability: Durability = .disk,
        written: ByteIntervals = ByteIntervals(),
        digest: Job.Checksum.Algorithm? = nil, writePermit: @escaping @Sendable () -> WritePermit = { .granted }
    ) {
        self.writePermit = writePermit
        self.descriptor = descriptor
        self.diskWriter = diskWriter
        self.durability = durability
        self.digest = digest.map { RunningDigest($0, diskWriter: diskWriter) }
        state = Mutex(State(written: written, durable: written))
    }

    deinit {
        // Blocks in progress and running calls hold the file, so the descriptors are no longer in use. Closing may
        // block.
        let descriptors = [descriptor] + state.withLock { $0.direct.map { [$0] } ?? [] }
        diskWriter.blocking.perform { for descriptor in descriptors { close(descriptor) } }
    }

    /// The bytes that `pwrite` has written, including those that were there before.
    package var written: ByteIntervals { state.withLock { $0.written } }

    /// The bytes that the last checkpoint made durable.
    package var durable: ByteIntervals { state.withLock { $0.durable } }

    /// The first error of a write or sync.
    package var error: TransferError? { hasFailed.load(ordering: .acquiring) ? state.withLock { $0.failure } : nil }

    func fail(_ error: TransferError) {
        state.withLock { $0.failure = $0.failure ?? error }
        hasFailed.store(true, ordering: .releasing)
    }

    /// Runs `body`, which syncs and returns 0 or an errno. One at a time: the kernel reports lost bytes only once, to
    /// the first caller, and the others must learn of it before they report success. Blocks.
    func sync(_ body: () -> Int32) throws(TransferError) {
        syncing.withLock { _ in
            let systemError = body()
            if systemError != 0 { fail(TransferError(file: "the file cannot be synced", systemError)) }
        }
        if let error { throw error }
    }

    // MARK: Blocks

    package func sink(at offset: Int64, wake: @escaping @Sendable () async -> Bool) -> any BodySink {
        // If the body needs no block any more, another body may get it.
        FileWriter(file: self, offset: offset) { [pool = diskWriter.pool] in
            Task { if await !wake() { pool.wakeNext() } }
        }
    }

    func attach(_ writer: FileWriter) { state.withLock { $0.writers.append(writer) } }

    func detach(_ writer: FileWriter) { state.withLock { $0.writers.removeAll { $0 === writer } } }

    func submit(_ block: Block, from writer: FileWriter) {
        digest?.offer(block)
        diskWriter.record(waiting: 1)
        let maxThreads = diskWriter.threadsForFile
        let needsThread = state.withLock { state in
            state.submitted += 1
            state.queue.append(QueuedBlock(block: block, writer: writer))
            guard state.threads < maxThreads else { return false }
            state.threads += 1
            return true
        }
        if needsThread { diskWriter.submit { self.writeQueue() } }
    }

    /// Writes the waiting blocks. On a writer thread.
    private func writeQueue() {
        for _ in 0..<Self.turn {
            // Right before the write, because the process may have been stopped at any time before.
            switch writePermit() {
            case .granted: break
            case .refused: fail(.cancelled)
            case .unknown:
                // The queue keeps its order, and this thread is free for others.
                Task {
                    try? await Task.sleep(for: Self.permitPause)
                    diskWriter.submit { self.writeQueue() }
                }
                return
            }
            let next = state.withLock { state in
                let next = state.queue.popFirst()
                if next == nil { state.threads -= 1 }
                return next
            }
            guard let next else { return }
            diskWriter.record(waiting: -1)
            write(next.block)
            next.writer.blockWritten()
        }
        diskWriter.submit { self.writeQueue() }
    }

    /// True if too many blocks wait for the digest. Then `wake` is called when the digest has caught up.
    func digestIsBehind(orCall wake: @escaping @Sendable () -> Void) -> Bool {
        digest?.isBehind(orCall: wake) ?? false
    }

    /// Writes the block, records it, and returns it to the pool.
    private func write(_ block: Block) {
        var range = block.offset..<block.end
        if error == nil {
            let lack = reserveAhead(of: block.count) ?? (hasSpace(for: block.count) ? nil : ENOSPC)
            if let systemError = lack ?? writeBytes(block) {
                fail(TransferError(file: "the file cannot be written", systemError))
                range = block.offset..<block.offset
            }
        } else {
            range = block.offset..<block.offset
        }
        diskWriter.release(block)
        let waiting = state.withLock { state in
            state.written.insert(range)
            state.completed += 1
            let due = state.waiting.filter { $0.until <= state.completed }
            state.waiting.removeAll { $0.until <= state.completed }
            return due
        }
        for entry in waiting { entry.continuation.resume() }
    }

    private func writeBytes(_ block: Block) -> Int32? {
        let bytes = block.bytes.baseAddress!
        let page = Int64(Block.alignment)
        // Whole pages go past the page cache. The bytes before and after them cannot.
        let first = (block.offset + page - 1) / page * page
        let last = block.end / page * page
        if last - first >= 4 * page, let direct = directDescriptor(for: block) {
            let (head, body) = (Int(first - block.offset), Int(last - first))
            let start = monotonicNanoseconds()
            let error = diskWriter.writeAll(direct, bytes + head, body, at: first)
            diskWriter.recordDirectWrite(monotonicNanoseconds() - start)
            if let error {
                guard error == EINVAL else { return error }
                // Some file systems accept O_DIRECT at open and refuse it at write.
                giveUpDirect()
                return writeCached(bytes, block.count, at: block.offset)
            }
            return writeCached(bytes, head, at: block.offset)
                ?? writeCached(bytes + head + body, block.count - head - body, at: last)
        }
        return writeCached(bytes, block.count, at: block.offset)
    }

    private func writeCached(_ bytes: UnsafeRawPointer, _ count: Int, at offset: Int64) -> Int32? {
        guard count > 0 else { return nil }
        if let error = diskWriter.writeAll(descriptor, bytes, count, at: offset) { return error }
        let isDue = state.withLock { state in
            state.cached += Int64(count)
            guard durability == .disk, state.cached >= Self.cacheLimit else { return false }
            state.cached = 0
            return true
        }
        if isDue { diskWriter.blocking.submit { self.dropCache() } }
        return nil
    }

    private func dropCache() {
        guard error == nil else { return }
        try? sync { diskWriter.sync(descriptor) }
        posix_fadvise(descriptor, 0, 0, Int32(POSIX_FADV_DONTNEED))
    }

    private func directDescriptor(for block: Block) -> Int32? {
        // On a disk that falls behind, the page cache combines small writes, and holds what the durability allows it to
        // hold. On other disks the page cache costs more than the disk, because filling it is slow.
        if durability == .process || !block.isLarge, diskWriter.isDiskBehind { return nil }
        return state.withLock { state in
            guard state.isDirectPossible else { return nil }
            if state.direct == nil {
                let opened = clinux_reopen_direct(descriptor)
                if opened >= 0 { state.direct = opened } else { state.isDirectPossible = false }
            }
            return state.direct
        }
    }

    private func giveUpDirect() { state.withLock { $0.isDirectPossible = false } }
}
