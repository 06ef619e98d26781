import Synchronization

/// A query of something that may hang, such as a disk. At most one query runs at a time, and callers share it. No
/// caller waits longer than `limit`; the query itself continues.
package final class SharedQuery<Value: Sendable>: Sendable {
    private let limit: Duration
    private let query: @Sendable () async -> Value
    private let current = Mutex<Task<Value, Never>?>(nil)

    package init(limit: Duration = .seconds(5), _ query: @escaping @Sendable () async -> Value) {
        (self.limit, self.query) = (limit, query)
    }

    /// The result of the running query, or of a new one. nil if there is none within `limit`.
    package func value() async -> Value? {
        let task = current.withLock { current in
            let task = current ?? Task { await self.settle() }
            current = task
            return task
        }
        let (values, feed) = AsyncStream<Value?>.makeStream()
        Task { feed.yield(await task.value) }
        let timeout = Task {
            try? await Task.sleep(for: limit)
            feed.yield(nil)
        }
        defer { timeout.cancel() }
        for await value in values { return value }
        return nil
    }

    private func settle() async -> Value {
        let value = await query()
        current.withLock { $0 = nil }
        return value
    }
}
