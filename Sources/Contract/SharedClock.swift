/// The time that all workers agree on: Redis' as a reply told it, carried on by this process' own monotonic clock. A
/// worker's wall clock may say anything, and jump.
package struct SharedClock: Sendable {
    private let told: Int64
    private let since: ContinuousClock.Instant

    /// `told` are the unix milliseconds that a reply has just said.
    package init(told: Int64, since: ContinuousClock.Instant = .now) { (self.told, self.since) = (told, since) }

    /// Unix milliseconds now.
    package var milliseconds: Int64 { told + Int64((ContinuousClock.now - since).milliseconds) }
}
