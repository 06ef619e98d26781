import HaulBus
import HaulRedis

// Requests are written to Redis, and take effect within 3 seconds, in whatever state a job is. A request for a job that nobody
// knows waits for its push for an hour. docs/bus.md, "Requests in every state", says what each does.
extension HaulQueue {
    /// Stops jobs. Their bytes are kept.
    public func pause(_ ids: [String]) async throws(HaulError) { try await request(.paused, ids) }

    /// Lets paused jobs go on, at the front of the line.
    public func resume(_ ids: [String]) async throws(HaulError) { try await request(.running, ids) }

    /// Runs failed jobs once more, from the bytes that are there, at the front of the line.
    public func retry(_ ids: [String]) async throws(HaulError) { try await request(.running, ids) }

    /// Ends jobs, and removes their partial files.
    public func cancel(_ ids: [String]) async throws(HaulError) { try await request(.cancelled, ids) }

    /// Forgets jobs; those that have not ended are cancelled.
    ///
    /// - Parameters:
    ///   - ids: Jobs in any state.
    ///   - files: Whether a finished file is deleted as well.
    public func remove(_ ids: [String], files: Bool = false) async throws(HaulError) {
        try await request(files ? .deleted : .removed, ids)
    }

    private func request(_ request: Request, _ ids: [String]) async throws(HaulError) {
        guard !ids.isEmpty else { return }
        try await reaching { () throws(RedisError) in try await queue.request(request, of: ids) }
    }
}
