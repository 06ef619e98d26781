import HaulExecutors
import HaulHTTP
import Synchronization

/// Collects the bytes of one transfer, which come in order, in blocks, and hands the blocks to the writer threads.
///
/// `append` is called on the event loop and never blocks. If no block is free, it accepts nothing, and `wake` is called
/// when it is worth trying again. `handOver` may be called on any thread, for a checkpoint.
final class FileWriter: BodySink {
    /// Streams at least this fast get large blocks: bytes per second.
    private static let minFastSpeed: Double = 8_000_000

    /// Slow streams write at least this much at once, in whole pages: a quarter of a small block.
    private static let minWrite = Block.smallSize / 4

    private struct State: Sendable {
        var position: Int64
        var block: Block?
        var isFast = false
        /// When the current block was begun: monotonic nanoseconds.
        var begun: UInt64 = 0
        /// Blocks that were handed over and are not written yet.
        var pending = 0
        var isFinished = false
        var whenWritten: CheckedContinuation<Void, Never>?
    }

    private let file: OutputFile
    private let diskWriter: DiskWriter
    private let wake: @Sendable () -> Void
    private let state: Mutex<State>

    init(file: OutputFile, offset: Int64, wake: @escaping @Sendable () -> Void) {
        self.file = file
        diskWriter = file.diskWriter
        self.wake = wake
        state = Mutex(State(position: offset))
        file.attach(self)
    }

    /// Accepts all of `count` bytes (at most 64 KiB) or none.
    func append(_ bytes: UnsafeRawPointer, _ count: Int) -> SinkResult {
        state.withLock { state in
            if let error = file.error { return .failed(error) }
            if state.block?.isForRemainder ?? true {
                let rest = state.block
                guard let block = takeBlock(&state, at: rest?.offset ?? state.position, for: rest?.count ?? 0)
                else { return .wait }
                if let rest {
                    block.append(rest.bytes.baseAddress!, rest.count)
                    diskWriter.release(rest)
                }
                state.block = block
            }
            let free = state.block!.free
            var next: Block?
            if count > free {
                next = takeBlock(&state, at: state.position + Int64(free), for: count - free)
                guard next != nil else { return .wait }
            }
            state.block!.append(bytes, min(count, free))
            if count >= free { submit(&state) }
            if let next {
                next.append(bytes + free, count - free)
                state.block = next
            }
            state.position += Int64(count)
            return .accepted
        }
    }

    /// No more bytes will come for a while. The block goes to the writers or back to the pool. Bytes that are not worth
    /// a write wait in memory of their own size, so that a thousand slow streams need few blocks.
    func releaseMemory() {
        state.withLock { state in
            guard let block = state.block, !block.isForRemainder else { return }
            let rest = block.cutRemainder(minBytes: Self.minWrite, pool: diskWriter.pool)
            if block.count > 0 {
                submit(&state)
            } else {
                diskWriter.release(block)
            }
            state.block = rest
        }
    }

    /// Hands a half-filled block to the writers.
    func handOver() {
        state.withLock { state in
            guard let block = state.block else { return }
            if block.count > 0 {
                submit(&state)
            } else {
                diskWriter.release(block)
                state.block = nil
            }
        }
    }

    /// Hands over what it holds. Nothing is appended after this call.
    func end() {
        handOver()
        file.detach(self)
    }

    /// Ends, and waits until all blocks are written, or given up because of an error.
    ///
    /// - Throws: The file's first error.
    func finish() async throws(TransferError) {
        end()
        await drain()
        if let error = file.error { throw error }
    }

    private func drain() async {
        await withCheckedContinuation { continuation in
            let done = state.withLock { state in
                guard state.pending > 0 else { return true }
                state.whenWritten = continuation
                return false
            }
            if done { continuation.resume() }
        }
    }

    /// Called by a writer thread after each block.
    func blockWritten() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.pending -= 1
            guard state.pending == 0 else { return nil }
            return state.whenWritten.take()
        }?.resume()
    }

    private func takeBlock(_ state: inout State, at offset: Int64, for minBytes: Int = 0) -> Block? {
        if file.digestIsBehind(orCall: wake) { return nil }
        let block: Block?
        if state.isFast, let large = diskWriter.pool.takeLarge() {
            block = large
        } else {
            // A fast stream waits for a large block while it has blocks under way; otherwise it accepts a small one. So
            // a few fast streams cannot take all small blocks as well.
            block = diskWriter.pool.take(large: state.isFast && state.pending > 0, orCall: wake)
        }
        block?.prepare(at: offset, for: minBytes)
        if state.block == nil { state.begun = monotonicNanoseconds() }
        return block
    }

    private func submit(_ state: inout State) {
        guard let block = state.block.take() else { return }
        let now = monotonicNanoseconds()
        state.isFast = Double(block.count) * 1e9 >= Self.minFastSpeed * Double(max(now - state.begun, 1))
        state.begun = now
        state.pending += 1
        file.submit(block, from: self)
    }
}
