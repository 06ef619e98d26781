/// Where an event stands among those of its job: later ones are greater, also across failovers, with which `sequence` may begin to
/// repeat itself.
public struct EventPosition: Sendable, Hashable, Comparable {
    /// Grows whenever another run of a Redis server serves the queue; 0 before there were epochs.
    public let epoch: Int64
    /// Grows with every event of the job.
    public let sequence: Int64

    /// A position as a hash or an event tells it.
    public init(epoch: Int64, sequence: Int64) { (self.epoch, self.sequence) = (epoch, sequence) }

    /// Epochs count first.
    public static func < (one: Self, other: Self) -> Bool {
        (one.epoch, one.sequence) < (other.epoch, other.sequence)
    }

    /// Whether no event can be between `earlier` and this one.
    package func follows(_ earlier: EventPosition) -> Bool {
        epoch == earlier.epoch && sequence == earlier.sequence + 1
    }

    /// Before every event.
    package static let none = EventPosition(epoch: -1, sequence: -1)
}
