/// An event of a job, or the job's status instead of events.
public enum JobUpdate: Sendable, Equatable {
    /// An event, as it was published.
    case event(Event)
    /// The job as in its hash. It comes at the beginning, and instead of events that were missed because the
    /// connection was lost or the consumer was too slow.
    case status(JobStatus)

    /// The job's id.
    public var id: String {
        switch self {
        case .event(let event): event.id
        case .status(let status): status.id
        }
    }

    /// The bytes received so far, if the update contains them.
    public var received: Int64? {
        switch self {
        case .event(let event): event.received ?? event.bytes ?? event.offset
        case .status(let status): status.received
        }
    }

    /// The bytes of the whole file, if the update contains them.
    public var total: Int64? {
        switch self {
        case .event(let event): event.total ?? event.bytes
        case .status(let status): status.total
        }
    }

    /// The final state that the update announces. nil for all other updates.
    public var finalState: JobState? {
        switch self {
        case .event(let event): event.finalState
        case .status(let status): status.record.hasEnded ? status.state : nil
        }
    }

    /// The position among the job's events. nil for events that belong to no job.
    public var position: EventPosition? {
        switch self {
        case .event(let event): event.position
        case .status(let status): status.position
        }
    }
}
