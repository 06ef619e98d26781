import Synchronization

/// Counters of a client, readable from any thread.
package final class Traffic: Sendable {
    private let roundTripCount = Atomic<Int64>(0)
    private let opened = Atomic<Int64>(0)

    /// The number of answered pipelines.
    package var roundTrips: Int64 { roundTripCount.load(ordering: .relaxed) }
    /// The number of opened connections.
    package var connects: Int64 { opened.load(ordering: .relaxed) }

    func countRoundTrip() { roundTripCount.wrappingAdd(1, ordering: .relaxed) }
    func countConnect() { opened.wrappingAdd(1, ordering: .relaxed) }
}
