/// Where a job is in its life. The functions of the bus move it from one to another (`Bus/Lua/states.lua`).
public enum JobState: String, Sendable, CaseIterable, Codable {
    /// In the waiting list.
    case queued
    /// Waiting for its time: a delay, a retry, or room on the disk.
    case scheduled
    /// Claimed by a worker that holds its lease.
    case running
    /// Stopped by a request. Its bytes are kept.
    case paused
    /// Its file is whole, and durable.
    case completed
    /// It ended with an error. Its bytes are kept for a retry.
    case failed
    /// Ended by a request. Its bytes are removed.
    case cancelled

    /// A final state; only a new push or an operator leads out of it.
    public var isFinal: Bool { self == .completed || self == .failed || self == .cancelled }
}
