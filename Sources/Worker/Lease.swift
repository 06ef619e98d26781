import Synchronization

/// A running job's lease, as far as this process may rely on it: by its own monotonic clock, from before the last
/// confirmed tick was sent. In Redis the lease never ends earlier than that, however late the reply came.
final class Lease: Sendable {
    private let length: Duration
    private let confirmed: Mutex<ContinuousClock.Instant>

    /// - Parameter sent: The time before the claim was sent.
    init(length: Duration, sent: ContinuousClock.Instant) {
        self.length = length
        confirmed = Mutex(sent)
    }

    /// A tick that was sent at `sent` has extended the lease in Redis.
    func extend(sent: ContinuousClock.Instant) { confirmed.withLock { $0 = max($0, sent) } }

    /// Whether the lease certainly holds for `margin` longer, so that there is time for work under the lease.
    func isHeld(margin: Duration = .milliseconds(500), at now: ContinuousClock.Instant = .now) -> Bool {
        now + margin < confirmed.withLock { $0 } + length
    }
}
