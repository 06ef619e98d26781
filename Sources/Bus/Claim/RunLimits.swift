import HaulContract

/// The operator's limits of a run, which its job cannot lift: the stricter ones of the queue's settings and of its
/// host's limits when the job was claimed (Lua/limits/hosts.lua).
package struct RunLimits: Sendable, Equatable {
    /// The longest that the run may take, in seconds.
    package let maxSeconds: Int64?
    /// Bytes per second below which a download is too slow.
    package let minSpeed: Int64?
    /// The largest file that a download may have.
    package let maxBytes: Int64?

    init(_ fields: [String: String]) {
        maxSeconds = fields[QueueSetting.maxSeconds.name].flatMap { Int64($0) }
        minSpeed = fields[QueueSetting.minSpeed.name].flatMap { Int64($0) }
        maxBytes = fields[QueueSetting.maxBytes.name].flatMap { Int64($0) }
    }

    /// Makes the job's own limits no looser than these.
    func restrict(_ job: inout Job) {
        guard job.kind == .download else { return }
        job.minSpeed = [job.minSpeed, minSpeed].compactMap(\.self).max()
        job.maxBytes = [job.maxBytes, maxBytes].compactMap(\.self).min()
    }
}
