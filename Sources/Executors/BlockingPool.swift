import Glibc
import Synchronization

/// Threads for calls that may block (open, fdatasync, link, getaddrinfo), so that Swift's cooperative threads and the
/// event loops never do. Threads start as they are needed, up to `limit`, and stay.
package final class BlockingPool: Sendable {
    private struct State {
        /// What is to be done from `next` on; before it nil, so that nothing that a finished call held outlives it.
        var work: [(@Sendable () -> Void)?] = []
        var next = 0
        var threads = 0
        var idle = 0
        var stopped = false
    }

    private let name: String
    private let limit: Int
    private let state: Monitor<State>

    /// `limit` is the largest number of threads, and so of calls that run at once.
    package init(name: String, limit: Int) {
        self.name = name
        self.limit = limit
        state = Monitor(State())
    }

    deinit { state.withLock { $0.stopped = true } }

    /// Runs `body` on one of the pool's threads. Not cancellable: a blocking call cannot be taken back.
    package func run<T: Sendable, E: Error>(_ body: @escaping @Sendable () throws(E) -> T) async throws(E) -> T {
        let result: Result<T, E> = await withCheckedContinuation { continuation in
            submit { continuation.resume(returning: Result { () throws(E) in try body() }) }
        }
        return try result.get()
    }

    /// Runs `body` on one of the pool's threads, in the order submitted as far as one thread goes.
    package func submit(_ body: @escaping @Sendable () -> Void) {
        let start = state.withLock { state in
            state.work.append(body)
            guard state.idle < state.work.count - state.next, state.threads < limit else { return false }
            state.threads += 1
            return true
        }
        if start { startThread(name: name) { [state] in Self.serve(state) } }
    }

    private static func serve(_ state: Monitor<State>) {
        while let body = state.waitWhile(
            { $0.next == $0.work.count && !$0.stopped },
            waiting: { $0.idle += $1 },
            then: { state -> (@Sendable () -> Void)? in
                guard state.next < state.work.count else { return nil }
                let body = state.work[state.next].take()
                state.next += 1
                // Also under a backlog that never runs empty; half at a time, so that the copying stays cheap.
                if state.next == state.work.count || state.next >= max(64, state.work.count / 2) {
                    state.work.removeFirst(state.next)
                    state.next = 0
                }
                return body
            })
        {
            body()
        }
    }
}
