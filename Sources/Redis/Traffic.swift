import Synchronization

/// Counters of a client, readable from any thread.
package final class Traffic: Sendable {
    private let roundTripCount = Atomic<Int64>(0)
    private let opened = Atomic<Int64>(0)
    private let replied = Mutex<ContinuousClock.Instant?>(nil)

    /// The number of pipelines that got their replies.
    package var roundTrips: Int64 { roundTripCount.load(ordering: .relaxed) }
    /// The number of opened connections.
    package var connects: Int64 { opened.load(ordering: .relaxed) }

    /// When Redis replied last; nil if it has not replied yet.
    package var lastReply: ContinuousClock.Instant? { replied.withLock(\.self) }

    func countRoundTrip() {
        roundTripCount.wrappingAdd(1, ordering: .relaxed)
        replied.withLock { $0 = .now }
    }
    func countConnect() { opened.wrappingAdd(1, ordering: .relaxed) }
}
