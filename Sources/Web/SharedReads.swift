/// What was read of Redis lately: whoever asks for the same within its age is given the same, also while it is being read. So
/// a hundred open pages cost Redis what one does.
actor SharedReads {
    private struct Entry {
        let task: Task<String, any Error>
        let begun: ContinuousClock.Instant
    }

    private var entries: [String: Entry] = [:]
    /// From so many on, what nobody asks for any more is let go of.
    private static let manyEntries = 64
    private static let oldest: Duration = .seconds(2)
    private var cleaned = ContinuousClock.now

    /// Something was changed: whoever did that is not to be told what was before.
    func forget() { entries = [:] }

    /// The text of `key`, no older than `age`.
    func text(
        _ key: String, within age: Duration, _ read: @escaping @Sendable () async throws -> String
    ) async throws -> String {
        if let entry = entries[key], entry.begun + age > .now { return try await entry.task.value }
        if entries.count >= Self.manyEntries, cleaned + Self.oldest < .now {
            cleaned = .now
            entries = entries.filter { $0.value.begun + Self.oldest > .now }
        }
        // Not the asker's own task: another one may wait for it when the asker has gone.
        let task = Task { try await read() }
        entries[key] = Entry(task: task, begun: .now)
        do { return try await task.value } catch {
            // An error is for those who waited for it.
            if entries[key]?.task == task { entries[key] = nil }
            throw error
        }
    }
}
