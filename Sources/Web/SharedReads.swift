/// A cache of texts that were read from Redis. Calls for the same key within its age share one read, also while it is
/// under way. So a hundred open pages cost Redis as much as one.
actor SharedReads {
    private struct Entry {
        let task: Task<String, any Error>
        let started: ContinuousClock.Instant
    }

    private var entries: [String: Entry] = [:]
    /// From this many entries on, those that are older than `maxAge` are dropped.
    private static let cleanupThreshold = 64
    private static let maxAge: Duration = .seconds(2)
    private var lastCleanup = ContinuousClock.now

    /// Drops all entries after a change, so that the client that made it does not get old texts.
    func removeAll() { entries = [:] }

    /// The text of `key`, no older than `age`.
    func text(
        _ key: String, within age: Duration, _ read: @escaping @Sendable () async throws -> String
    ) async throws -> String {
        if let entry = entries[key], entry.started + age > .now { return try await entry.task.value }
        if entries.count >= Self.cleanupThreshold, lastCleanup + Self.maxAge < .now {
            lastCleanup = .now
            entries = entries.filter { $0.value.started + Self.maxAge > .now }
        }
        // A task of its own goes on for other callers when this one is cancelled.
        let task = Task { try await read() }
        entries[key] = Entry(task: task, started: .now)
        do { return try await task.value } catch {
            // Only those who wait now get the error. The next call reads again.
            if entries[key]?.task == task { entries[key] = nil }
            throw error
        }
    }
}
