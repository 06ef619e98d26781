import HaulExecutors
import Synchronization

/// Counters of one transfer. Any thread may read them at any time without waking the loop. Each is an atomic of its
/// own, so that no reader takes a lock that the loop would wait for.
package final class TransferProgress: Sendable {
    private let bytes = Atomic<Int64>(0)
    /// When the current hold began, in monotonic nanoseconds; 0 if there is none.
    private let holdBegun = Atomic<UInt64>(0)
    private let heldBefore = Atomic<UInt64>(0)
    private let stop = Atomic<Int64>(.max)
    private let over = Atomic(false)
    /// Nanoseconds; 0 while unknown.
    private let roundTrip = Atomic<UInt64>(0)
    private let delay = Atomic<UInt64>(0)
    private let window = Atomic<Int64>(0)
    private let lossy = Atomic(false)

    /// Bytes of the body accepted so far.
    package var received: Int64 { bytes.load(ordering: .relaxed) }

    /// Nanoseconds in which our own limits, the digest or the disk held the transfer, and not the server. A reading
    /// while a hold ends may leave this hold out.
    package var held: UInt64 {
        // In this order, so that a hold that ends meanwhile is not counted twice.
        let before = heldBefore.load(ordering: .acquiring)
        let begun = holdBegun.load(ordering: .relaxed)
        let now = monotonicNanoseconds()
        return before + (begun == 0 || now < begun ? 0 : now - begun)
    }

    /// The file offset to stop at; see `Transfer.shorten(to:)`.
    package var end: Int64 { stop.load(ordering: .relaxed) }

    var hasEnded: Bool { over.load(ordering: .relaxed) }

    /// The path to the server, known once the head has arrived; nil if the kernel does not report it.
    package var path: TransferPath? {
        let nanoseconds = roundTrip.load(ordering: .relaxed)
        guard nanoseconds > 0 else { return nil }
        return TransferPath(
            roundTrip: Double(nanoseconds) / 1e9, delay: Double(delay.load(ordering: .relaxed)) / 1e9,
            window: window.load(ordering: .relaxed), isLossy: lossy.load(ordering: .relaxed))
    }

    // Written by the loop's thread only, except for `shorten`.

    func add(_ count: Int) { bytes.store(received + Int64(count), ordering: .relaxed) }

    func hold(_ value: Bool) {
        let now = monotonicNanoseconds()
        let begun = holdBegun.exchange(value ? now : 0, ordering: .relaxed)
        if begun != 0 { heldBefore.store(heldBefore.load(ordering: .relaxed) + now - begun, ordering: .releasing) }
    }

    func record(_ path: TransferPath, isLossy: Bool) {
        if isLossy { lossy.store(true, ordering: .relaxed) }
        delay.store(UInt64(path.delay * 1e9), ordering: .relaxed)
        window.store(path.window, ordering: .relaxed)
        roundTrip.store(UInt64(path.roundTrip * 1e9), ordering: .relaxed)
    }

    func finish() { over.store(true, ordering: .relaxed) }

    func shorten(to end: Int64) { stop.min(end, ordering: .relaxed) }
}
