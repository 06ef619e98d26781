import Synchronization

/// How much of a request has been sent. Any thread may read it at any time. One object may follow a request through
/// redirects and repetitions.
package final class SendingProgress: Sendable {
    private let begun = Atomic(false)
    private let position = Atomic<Int64>(0)
    private let all = Atomic<Int64>(0)
    private let waiting = Atomic(false)
    /// Bytes of the body that were certainly acknowledged when the head of the response had arrived.
    private let acknowledged = Atomic<Int64>(0)
    private let unacknowledged = Atomic<Int64>(0)

    package init() {}

    /// A part of a request may have left this machine. If false, no server can have received anything.
    package var hasBegun: Bool { begun.load(ordering: .acquiring) }

    /// Bytes of the body that were handed to the network since sending last started from the first byte.
    package var sent: Int64 { position.load(ordering: .relaxed) }

    /// Bytes that were handed to the network in all, including those that were sent again.
    package var totalSent: Int64 { all.load(ordering: .relaxed) }

    /// Bytes of the body that the other side's TCP had confirmed when the response ended. Before that, the bytes that
    /// were handed to the network. A server cannot have read more.
    package var confirmed: Int64 {
        max(acknowledged.load(ordering: .relaxed), sent - unacknowledged.load(ordering: .relaxed))
    }

    /// Sending waits for a rate limit of ours or for the source of the bytes, not for the server.
    package var isHeld: Bool { waiting.load(ordering: .relaxed) }

    // Written by the loop's thread only.

    func begin() { begun.store(true, ordering: .releasing) }

    func rewind() {
        position.store(0, ordering: .relaxed)
        acknowledged.store(0, ordering: .relaxed)
        unacknowledged.store(0, ordering: .relaxed)
    }

    func add(_ count: Int) {
        position.store(sent + Int64(count), ordering: .relaxed)
        all.store(totalSent + Int64(count), ordering: .relaxed)
    }

    func responded(unacknowledged bytes: Int64) {
        acknowledged.store(max(0, sent - bytes), ordering: .relaxed)
    }

    func ended(unacknowledged bytes: Int64) { unacknowledged.store(bytes, ordering: .relaxed) }

    func hold(_ value: Bool) { waiting.store(value, ordering: .relaxed) }
}
