import Synchronization

/// Something that is asked of what may hang, like a disk: once at a time, and nobody waits longer than `limit` for the answer.
package final class Question<Answer: Sendable>: Sendable {
    private let limit: Duration
    private let ask: @Sendable () async -> Answer
    private let current = Mutex<Task<Answer, Never>?>(nil)

    package init(limit: Duration = .seconds(5), _ ask: @escaping @Sendable () async -> Answer) {
        (self.limit, self.ask) = (limit, ask)
    }

    /// nil if there is no answer in time.
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
