/// What is new of a job.
public enum JobUpdate: Sendable, Equatable {
    /// An event, as a worker published it.
    case event(Event)
    /// What the hash says: at the beginning, and in place of events that were missed, with a lost connection or because the
    /// consumer was too slow.
    case status(JobStatus)

    /// The job's id.
    public var id: String {
        switch self {
        case .event(let event): event.id
        case .status(let status): status.id
        }
    }

    /// Bytes that are there, if it tells.
    public var received: Int64? {
        switch self {
        case .event(let event): event.received ?? event.bytes ?? event.offset
        case .status(let status): status.received
        }
    }

    /// Bytes of the whole file, if it tells.
    public var total: Int64? {
        switch self {
        case .event(let event): event.total ?? event.bytes
        case .status(let status): status.total
        }
    }

    /// The final state that it tells, if it tells one.
    public var finalState: JobState? {
        switch self {
        case .event(let event): event.finalState
        case .status(let status): status.record.hasEnded ? status.state : nil
        }
    }

    /// Where it stands among what is told of its job.
    public var position: EventPosition? {
        switch self {
        case .event(let event): event.position
        case .status(let status): status.position
        }
    }
}
