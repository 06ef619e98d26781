/// What is published of a job, as it comes off the wire: docs/bus.md lists the kinds and their members.
///
/// Open: an event of a newer worker keeps all of its members, known or not.
public struct Event: Sendable, Equatable {
    /// As it is on the wire: `progress`, `completed`. ``kind-swift.property`` is the same as a type.
    public let name: String
    /// The job's id, or `batch/` and the name of a batch; `unknown` if a rejected element has none that is valid.
    public let id: String
    /// The name of the queue.
    public let queue: String
    /// Grows with every event of the job, as long as no data is lost; nil for events that belong to no job.
    public let sequence: Int64?
    /// Grows when data may have been lost, as with a failover; nil for events of earlier versions, and of no job.
    public let epoch: Int64?
    /// Unix milliseconds, by Redis' clock.
    public let at: Int64
    /// The name of the worker that tells it, if one does.
    public let worker: String?
    /// The whole object.
    public let json: JSON

    /// nil for what is no event.
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

    /// What orders the events of a job; nil for events that belong to no job.
    public var position: EventPosition? { sequence.map { EventPosition(epoch: epoch ?? 0, sequence: $0) } }

    /// A member of the object, as it came.
    public subscript(member: String) -> JSON? { json[member] }

    /// The final state that this event announces, if it announces one.
    public var finalState: JobState? { JobState(rawValue: name).flatMap { $0.isFinal ? $0 : nil } }
}
