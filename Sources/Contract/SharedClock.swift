/// A clock that all workers agree on: the time of Redis from a reply, continued by this process' monotonic clock. A
/// worker's wall clock may be wrong, and may jump.
package struct SharedClock: Sendable {
    private let serverTime: Int64
    private let since: ContinuousClock.Instant

    /// - Parameters:
    ///   - serverTime: Unix milliseconds, from a reply that has just arrived.
    ///   - since: When the reply arrived.
    package init(serverTime: Int64, since: ContinuousClock.Instant = .now) {
        (self.serverTime, self.since) = (serverTime, since)
    }

    /// Unix milliseconds now.
    package var milliseconds: Int64 { serverTime + Int64((ContinuousClock.now - since).milliseconds) }
}
