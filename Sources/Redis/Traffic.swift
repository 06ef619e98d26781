import Synchronization

/// How much a client has had to do with its server.
package final class Traffic: Sendable {
    private let answered = Atomic<Int64>(0)
    private let opened = Atomic<Int64>(0)

    /// Pipelines of commands that were sent and answered.
    package var roundTrips: Int64 { answered.load(ordering: .relaxed) }
    /// Connections that were opened.
    package var connects: Int64 { opened.load(ordering: .relaxed) }

    func noteRoundTrip() { answered.wrappingAdd(1, ordering: .relaxed) }
    func noteConnect() { opened.wrappingAdd(1, ordering: .relaxed) }
}
