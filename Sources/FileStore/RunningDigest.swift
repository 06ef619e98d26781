import CHaulOpenSSL
import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

/// A digest of a file from byte 0 on, computed from the blocks that arrive in order, while they are written.
///
/// A block that does not start where the last accepted one ended is skipped. At the end, what is missing is read back
/// from the file. If any bytes arrived twice, the whole file is read back, because two servers may have sent different
/// bytes, and only the file shows which of them it contains.
final class RunningDigest: @unchecked Sendable {
    private struct State: Sendable {
        var queue: [Block] = []
        var isRunning = false
        /// The offset after the last accepted byte.
        var acceptedEnd: Int64 = 0
        /// All bytes that arrived, in order or not.
        var arrived = ByteIntervals()
        var hasDuplicates = false
        /// Called once fewer blocks are queued, because readers from the network wait for that.
        var wakeUps: [@Sendable () -> Void] = []
        /// The calls of `waitUntilIdle` that wait.
        var idleWaiters: [CheckedContinuation<Void, Never>] = []
    }

    /// When this many blocks are queued, readers wait until half of them are hashed.
    private static let maxQueuedBlocks = 8

    let algorithm: Job.Checksum.Algorithm
    private let diskWriter: DiskWriter
    private let state = Mutex(State())
    // Not locked, because only one thread at a time uses them: the one in `hashQueuedBlocks`, and later the one in
    // `finish`.
    private let context: OpaquePointer
    private var hashedEnd: Int64 = 0

    init(_ algorithm: Job.Checksum.Algorithm, diskWriter: DiskWriter) {
        self.algorithm = algorithm
        self.diskWriter = diskWriter
        context = EVP_MD_CTX_new()
        begin()
    }

    private func begin() {
        EVP_DigestInit_ex(context, algorithm.method, nil)
        hashedEnd = 0
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Queues the block for hashing if it continues the digest.
    func offer(_ block: Block) {
        let start = state.withLock { state in
            let range = block.offset..<block.end
            state.hasDuplicates = state.hasDuplicates || state.arrived.intervals.contains { $0.overlaps(range) }
            state.arrived.insert(range)
            guard block.offset == state.acceptedEnd, !range.isEmpty, !state.hasDuplicates else { return false }
            block.retain()
            state.acceptedEnd = block.end
            state.queue.append(block)
            guard !state.isRunning else { return false }
            state.isRunning = true
            return true
        }
        if start { diskWriter.blocking.submit { self.hashQueuedBlocks() } }
    }

    /// True if too many blocks wait for hashing. Then `wake` is called when the digest has caught up.
    func isBehind(orCall wake: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            guard state.queue.count >= Self.maxQueuedBlocks else { return false }
            state.wakeUps.append(wake)
            return true
        }
    }

    /// Returns when no accepted block waits for hashing.
    func waitUntilIdle() async {
        await withCheckedContinuation { continuation in
            let done = state.withLock { state in
                guard state.isRunning else { return true }
                state.idleWaiters.append(continuation)
                return false
            }
            if done { continuation.resume() }
        }
    }

    private func hashQueuedBlocks() {
        while true {
            let (block, wakeUps, idleWaiters) = state.withLock { state in
                let block = state.queue.isEmpty ? nil : state.queue.removeFirst()
                state.isRunning = block != nil
                let caughtUp = state.queue.count <= Self.maxQueuedBlocks / 2
                return (
                    block, caughtUp ? exchange(&state.wakeUps, with: []) : [],
                    block == nil ? exchange(&state.idleWaiters, with: []) : []
                )
            }
            for wake in wakeUps { wake() }
            for waiter in idleWaiters { waiter.resume() }
            guard let block else { return }
            EVP_DigestUpdate(context, block.bytes.baseAddress, block.count)
            hashedEnd = block.end
            diskWriter.release(block)
        }
    }

    /// Reads back what is missing, and returns the digest. Must be called only while no block waits for hashing, and
    /// blocks the thread.
    func finish(reading descriptor: Int32, to size: Int64, dropCache: Bool) throws(TransferError) -> String {
        assert(state.withLock { !$0.isRunning }, "blocks are being hashed")
        if state.withLock({ $0.hasDuplicates }) { begin() }
        let missing = Int(max(size - hashedEnd, 0))
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: min(missing, 1 << 20), alignment: Block.alignment)
        defer { buffer.deallocate() }
        posix_fadvise(descriptor, Int(hashedEnd), 0, Int32(POSIX_FADV_SEQUENTIAL))
        while hashedEnd < size {
            let count = pread(descriptor, buffer.baseAddress, min(buffer.count, Int(size - hashedEnd)), Int(hashedEnd))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw TransferError(file: "the file cannot be read", count < 0 ? errno : EIO) }
            EVP_DigestUpdate(context, buffer.baseAddress, count)
            if dropCache { posix_fadvise(descriptor, Int(hashedEnd), count, Int32(POSIX_FADV_DONTNEED)) }
            hashedEnd += Int64(count)
        }
        var result = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var length: UInt32 = 0
        let final = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(final) }
        EVP_MD_CTX_copy_ex(final, context)
        EVP_DigestFinal_ex(final, &result, &length)
        return Hexadecimal.text(result.prefix(Int(length)))
    }
}
