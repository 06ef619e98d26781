import Synchronization

/// A query of something that may hang, such as a disk. At most one query runs at a time, and callers share it. No
/// caller waits longer than `limit`; the query itself goes on.
package final class SharedQuery<Answer: Sendable>: Sendable {
    private let limit: Duration
    private let ask: @Sendable () async -> Answer
    private let current = Mutex<Task<Answer, Never>?>(nil)

    package init(limit: Duration = .seconds(5), _ ask: @escaping @Sendable () async -> Answer) {
        (self.limit, self.ask) = (limit, ask)
    }

    /// The result of the running query, or of a new one. nil if there is none within `limit`.
    package func answer() async -> Answer? {
        let question = current.withLock { current in
            let question = current ?? Task { await self.settle() }
            current = question
            return question
        }
        let (answers, feed) = AsyncStream<Answer?>.makeStream()
        Task { feed.yield(await question.value) }
        let timeout = Task {
            try? await Task.sleep(for: limit)
            feed.yield(nil)
        }
        defer { timeout.cancel() }
        for await answer in answers { return answer }
        return nil
    }

    private func settle() async -> Answer {
        let answer = await ask()
        current.withLock { $0 = nil }
        return answer
    }
}
