/// The position of an event among the events of its job. A later event has a greater position, even after a failover in
/// which `sequence` has gone back.
public struct EventPosition: Sendable, Hashable, Comparable {
    /// Grows whenever another run of a Redis server serves the queue. 0 for events of versions without epochs.
    public let epoch: Int64
    /// Grows with each event of the job.
    public let sequence: Int64

    /// A position, from the members of an event or the fields of a job's hash.
    public init(epoch: Int64, sequence: Int64) { (self.epoch, self.sequence) = (epoch, sequence) }

    /// Compares epochs first, then sequences.
    public static func < (one: Self, other: Self) -> Bool {
        (one.epoch, one.sequence) < (other.epoch, other.sequence)
    }

    /// Whether this event comes directly after `earlier`, so that no event is missing between the two.
    package func follows(_ earlier: EventPosition) -> Bool {
        epoch == earlier.epoch && sequence == earlier.sequence + 1
    }

    /// The position before all events.
    package static let none = EventPosition(epoch: -1, sequence: -1)
}
