import Synchronization

/// The requests for ticks of a queue, which `QueueServer` makes.
final class TickRequests: Sendable {
    private struct State {
        /// `requestEarlyTickSoon` will request a tick.
        var isEarlyTickPending = false
        /// The next tick is of the whole queue, and reports all runs.
        var isFullTickDue = false
    }

    private let table: RunTable
    private let state = Mutex(State())
    private let wakeUp: AsyncStream<Void>.Continuation
    let wakeUps: AsyncStream<Void>

    init(_ table: RunTable) {
        self.table = table
        (wakeUps, wakeUp) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Requests a tick of the whole queue at once.
    func requestTick() {
        state.withLock { $0.isFullTickDue = true }
        wakeUp.yield()
    }

    /// Requests a tick at once that reports only runs whose reports are pending.
    func requestEarlyTick() { wakeUp.yield() }

    /// Debounces events: requests a tick once an event of a run has waited for about 100 ms. A short job reports all
    /// events with its settle; a longer one does not have to wait for the next second's tick.
    func requestEarlyTickSoon() {
        let isFirst = state.withLock { state in
            defer { state.isEarlyTickPending = true }
            return !state.isEarlyTickPending
        }
        guard isFirst else { return }
        Task {
            try? await Task.sleep(for: .milliseconds(100))
            state.withLock { $0.isEarlyTickPending = false }
            guard let oldest = table.runs.compactMap(\.unreportedSince).min() else { return }
            if oldest <= .now - .milliseconds(90) { requestEarlyTick() } else { requestEarlyTickSoon() }
        }
    }

    /// Whether the tick that begins now is one of the whole queue.
    func takeFullTick() -> Bool {
        state.withLock { state in
            defer { state.isFullTickDue = false }
            return state.isFullTickDue
        }
    }

    /// Requests a tick of the whole queue at this interval, until the task is cancelled. Then `wakeUps` ends.
    func run(every interval: Duration) async {
        // Workers that were started together must not tick together.
        var pause = interval * Double.random(in: 0...1)
        while !Task.isCancelled {
            try? await Task.sleep(for: pause)
            requestTick()
            pause = interval
        }
        wakeUp.finish()
    }
}
