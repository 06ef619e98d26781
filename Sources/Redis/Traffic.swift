import Synchronization

/// Counters of a client, readable from any thread.
package final class Traffic: Sendable {
    private let roundTripCount = Atomic<Int64>(0)
    private let opened = Atomic<Int64>(0)
    private let answered = Mutex<ContinuousClock.Instant?>(nil)

    /// The number of answered pipelines.
    package var roundTrips: Int64 { roundTripCount.load(ordering: .relaxed) }
    /// The number of opened connections.
    package var connects: Int64 { opened.load(ordering: .relaxed) }

    /// When Redis answered last; nil if it has not answered yet.
    package var lastAnswer: ContinuousClock.Instant? { answered.withLock(\.self) }

    func countRoundTrip() {
        roundTripCount.wrappingAdd(1, ordering: .relaxed)
        answered.withLock { $0 = .now }
    }
    func countConnect() { opened.wrappingAdd(1, ordering: .relaxed) }
}
