import HaulBus
import HaulRedis

// Control operations are written to Redis, and take effect within 3 seconds, whatever the state of a job. An operation
// for an unknown job is kept for a day, because the push may arrive after it. docs/reference/ordering.md
// says what each of them does.
extension HaulQueue {
    /// Pauses jobs. What they have downloaded is kept.
    public func pause(_ ids: [String]) async throws(HaulError) { try await write(.paused, for: ids) }

    /// Resumes paused jobs. They run before all waiting jobs.
    public func resume(_ ids: [String]) async throws(HaulError) { try await write(.running, for: ids) }

    /// Runs failed jobs again from their last checkpoint, before all waiting jobs.
    public func retry(_ ids: [String]) async throws(HaulError) { try await write(.running, for: ids) }

    /// Cancels jobs, and removes their partial files.
    public func cancel(_ ids: [String]) async throws(HaulError) { try await write(.cancelled, for: ids) }

    /// Removes jobs from Redis. Jobs that have not ended are cancelled first.
    ///
    /// - Parameters:
    ///   - ids: Jobs in any state.
    ///   - files: Whether to delete finished files as well.
    public func remove(_ ids: [String], files: Bool = false) async throws(HaulError) {
        try await write(files ? .deleted : .removed, for: ids)
    }

    private func write(_ operation: ControlOperation, for ids: [String]) async throws(HaulError) {
        guard !ids.isEmpty else { return }
        _ = try await mappingErrors { () throws(RedisError) in try await queue.request(operation, of: ids) }
    }
}
