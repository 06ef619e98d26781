/// Where a job is in its life. The functions of the bus move it from one to another (`Bus/Lua/states.lua`).
public enum JobState: String, Sendable, CaseIterable, Codable {
    /// In the waiting list.
    case queued
    /// Waiting for its time: a delay, a retry, or room on the disk.
    case scheduled
    /// Claimed by a worker that holds its lease.
    case running
    case paused
    case completed
    case failed
    case cancelled

    /// A final state; only a new push or an operator leads out of it.
    public var isFinal: Bool { self == .completed || self == .failed || self == .cancelled }
}
