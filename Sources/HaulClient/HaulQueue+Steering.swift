import HaulBus
import HaulRedis

// Requests are written to Redis, and take effect within 3 seconds in any state of a job. A request for an unknown job
// waits for an hour for a push of this job. docs/bus.md, "Control operations in every state", says what each does.
extension HaulQueue {
    /// Pauses jobs. Their bytes are kept.
    public func pause(_ ids: [String]) async throws(HaulError) { try await request(.paused, ids) }

    /// Resumes paused jobs, before all waiting jobs.
    public func resume(_ ids: [String]) async throws(HaulError) { try await request(.running, ids) }

    /// Runs failed jobs again, from their last checkpoint, before all waiting jobs.
    public func retry(_ ids: [String]) async throws(HaulError) { try await request(.running, ids) }

    /// Cancels jobs, and removes their partial files.
    public func cancel(_ ids: [String]) async throws(HaulError) { try await request(.cancelled, ids) }

    /// Removes jobs from Redis. Jobs that have not ended are cancelled first.
    ///
    /// - Parameters:
    ///   - ids: Jobs in any state.
    ///   - files: Whether to delete finished files as well.
    public func remove(_ ids: [String], files: Bool = false) async throws(HaulError) {
        try await request(files ? .deleted : .removed, ids)
    }

    private func request(_ request: ControlOperation, _ ids: [String]) async throws(HaulError) {
        guard !ids.isEmpty else { return }
        try await reaching { () throws(RedisError) in try await queue.request(request, of: ids) }
    }
}
