import Synchronization

/// How far the sending of a request is: to be read from any thread at any time. It may go with a request through redirects and
/// repetitions.
package final class SendingProgress: Sendable {
    private let begun = Atomic(false)
    private let position = Atomic<Int64>(0)
    private let all = Atomic<Int64>(0)
    private let waiting = Atomic(false)

    package init() {}

    /// A part of a request may have left this machine. False: no server can have heard of it.
    package var hasBegun: Bool { begun.load(ordering: .acquiring) }

    /// Bytes of the body that have been handed to the network, since it was last begun.
    package var sent: Int64 { position.load(ordering: .relaxed) }

    /// The same, with those that had to be sent again.
    package var sentInAll: Int64 { all.load(ordering: .relaxed) }

    /// Not the server, but a limit of ours or the source of the bytes holds it up.
    package var isHeld: Bool { waiting.load(ordering: .relaxed) }

    // Written by the loop's thread alone.

    func begin() { begun.store(true, ordering: .releasing) }

    func rewind() { position.store(0, ordering: .relaxed) }

    func add(_ count: Int) {
        position.store(sent + Int64(count), ordering: .relaxed)
        all.store(sentInAll + Int64(count), ordering: .relaxed)
    }

    func hold(_ value: Bool) { waiting.store(value, ordering: .relaxed) }
}
