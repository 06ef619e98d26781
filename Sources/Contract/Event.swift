/// An event of a job or of a batch, as it was published. docs/reference/events.md lists the kinds of events and
/// their members.
///
/// An event of a newer worker may have members that this version does not know. They are in ``json``.
public struct Event: Sendable, Equatable {
    /// The kind in the wire format: `progress`, `completed`. ``kind-swift.property`` is the same as a type.
    public let name: String
    /// The job's id. It is `batch/` and the name of a batch for `batch_ended`, and `unknown` for a rejected element
    /// that has no valid id.
    public let id: String
    /// The name of the queue.
    public let queue: String
    /// Grows with each event of the job, as long as Redis loses no data. nil for events that belong to no job.
    public let sequence: Int64?
    /// Grows when Redis may have lost data, for example in a failover. nil for events that belong to no job, and for
    /// events of old versions.
    public let epoch: Int64?
    /// Unix milliseconds, by Redis' clock.
    public let at: Int64
    /// The name of the worker that published the event. nil if no worker did.
    public let worker: String?
    /// The whole event: a JSON object.
    public let json: JSON

    /// Reads a message of an event channel. nil if `payload` is not an event.
    public init?(_ payload: some Collection<UInt8>) {
        guard let json = try? JSON(payload), let name = json["event"]?.string,
            let id = json["id"]?.string ?? json["batch"]?.string.map({ "batch/\($0)" })
        else { return nil }
        self.name = name
        self.id = id
        self.json = json
        queue = json["queue"]?.string ?? ""
        sequence = json["seq"]?.integer
        epoch = json["epoch"]?.integer
        at = json["at"]?.integer ?? 0
        worker = json["worker"]?.string
    }

    /// The position among the job's events. nil for events that belong to no job.
    public var position: EventPosition? { sequence.map { EventPosition(epoch: epoch ?? 0, sequence: $0) } }

    /// A member of ``json``.
    public subscript(member: String) -> JSON? { json[member] }

    /// The final state that this event announces. nil for all other events.
    public var finalState: JobState? { JobState(rawValue: name).flatMap { $0.isFinal ? $0 : nil } }
}
