import Synchronization

/// A running job's lease as this process may count on it: by its own monotonic clock, from before the last confirmed
/// tick was sent. Redis' deadline is never earlier than that, whatever the network did to the reply.
final class Lease: Sendable {
    private let length: Duration
    private let confirmed: Mutex<ContinuousClock.Instant>

    /// `sent` is the moment before the claim was sent.
    init(length: Duration, sent: ContinuousClock.Instant) {
        self.length = length
        confirmed = Mutex(sent)
    }

    /// A tick that was sent at `sent` extended the lease in Redis.
    func extend(sent: ContinuousClock.Instant) { confirmed.withLock { $0 = max($0, sent) } }

    /// Whether the lease certainly still stands, with `margin` for what is to be done under it.
    func isHeld(margin: Duration = .milliseconds(500), at now: ContinuousClock.Instant = .now) -> Bool {
        now + margin < confirmed.withLock { $0 } + length
    }
}
