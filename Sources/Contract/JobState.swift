/// The state of a job. Only the functions of the bus change it (`Bus/Lua/core/states.lua`).
public enum JobState: String, Sendable, CaseIterable, Codable {
    /// In the list of waiting jobs.
    case queued
    /// Waiting for a certain time: after a delay, before a retry, or for free space on the disk.
    case scheduled
    /// Claimed by a worker that holds the lease.
    case running
    /// Stopped by a control operation. The bytes are kept.
    case paused
    /// Done. The file is complete and durable.
    case completed
    /// Ended with an error. The bytes are kept for a retry.
    case failed
    /// Ended by a control operation. The bytes are removed.
    case cancelled

    /// Whether the state is final. A job leaves a final state only by a new push or by a control operation.
    public var isFinal: Bool { self == .completed || self == .failed || self == .cancelled }
}
