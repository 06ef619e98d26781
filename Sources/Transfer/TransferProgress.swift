import Executors
import Synchronization

/// Counters of one transfer, to be read from any thread at any time without waking the loop.
package final class TransferProgress: Sendable {
    private let bytes = Atomic<Int64>(0)
    private let last = Atomic<UInt64>(0)
    private let held = Atomic(false)
    private let hindered = Atomic<UInt64>(0)
    private let stop = Atomic<Int64>(.max)
    private let over = Atomic(false)

    /// Bytes of the body accepted so far.
    package var received: Int64 { bytes.load(ordering: .relaxed) }

    /// Monotonic nanoseconds of the last byte from the server; of the start before there is one.
    package var lastByte: UInt64 { last.load(ordering: .relaxed) }

    /// Monotonic nanoseconds when it was last not the server but our own limits, the digest or the disk that held the
    /// transfer, be it for a moment; 0 if they never did.
    package var lastHeld: UInt64 {
        held.load(ordering: .relaxed) ? monotonicNanoseconds() : hindered.load(ordering: .relaxed)
    }

    /// The file offset to stop at; see `Transfer.shorten(to:)`.
    package var end: Int64 { stop.load(ordering: .relaxed) }

    /// The transfer has ended.
    var isOver: Bool { over.load(ordering: .relaxed) }

    // Written by the loop's thread alone, but for `shorten`.

    func add(_ count: Int) { bytes.store(received + Int64(count), ordering: .relaxed) }

    func touch(_ now: UInt64) { last.store(now, ordering: .relaxed) }

    func hold(_ value: Bool) {
        if held.exchange(value, ordering: .relaxed) { hindered.store(monotonicNanoseconds(), ordering: .relaxed) }
    }

    func finish() { over.store(true, ordering: .relaxed) }

    func shorten(to end: Int64) { stop.min(end, ordering: .relaxed) }
}
