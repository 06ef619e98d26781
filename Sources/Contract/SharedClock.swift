/// A clock that all workers agree on: the time of Redis from a reply, continued by this process' monotonic clock. A
/// worker's wall clock may be wrong, and may jump.
package struct SharedClock: Sendable {
    private let told: Int64
    private let since: ContinuousClock.Instant

    /// - Parameters:
    ///   - told: Unix milliseconds, from a reply that has just arrived.
    ///   - since: When the reply arrived.
    package init(told: Int64, since: ContinuousClock.Instant = .now) { (self.told, self.since) = (told, since) }

    /// Unix milliseconds now.
    package var milliseconds: Int64 { told + Int64((ContinuousClock.now - since).milliseconds) }
}
