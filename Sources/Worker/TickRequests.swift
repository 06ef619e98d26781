import Synchronization

/// Which ticks of a queue are requested. `QueueServer` makes them.
final class TickRequests: Sendable {
    private struct State {
        /// A debounced request for a tick is pending (`hurrySoon`).
        var isHurrying = false
        /// The next tick is of the whole queue, and reports all runs.
        var isFullTickDue = false
    }

    private let table: RunTable
    private let state = Mutex(State())
    private let nudge: AsyncStream<Void>.Continuation
    let nudges: AsyncStream<Void>

    init(_ table: RunTable) {
        self.table = table
        (nudges, nudge) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Requests a tick of the whole queue at once.
    func requestTick() {
        state.withLock { $0.isFullTickDue = true }
        nudge.yield()
    }

    /// Requests a tick at once that reports only the runs with news.
    func hurry() { nudge.yield() }

    /// Debounces events: requests a tick once an event of a run has waited for about 100 ms. A short job reports all
    /// events with its settle; a longer one does not have to wait for the next second's tick.
    func hurrySoon() {
        let isFirst = state.withLock { state in
            defer { state.isHurrying = true }
            return !state.isHurrying
        }
        guard isFirst else { return }
        Task {
            try? await Task.sleep(for: .milliseconds(100))
            state.withLock { $0.isHurrying = false }
            guard let oldest = table.runs.compactMap(\.newsSince).min() else { return }
            if oldest <= .now - .milliseconds(90) { hurry() } else { hurrySoon() }
        }
    }

    /// Whether the tick that begins now is one of the whole queue.
    func takeFullTick() -> Bool {
        state.withLock { state in
            defer { state.isFullTickDue = false }
            return state.isFullTickDue
        }
    }

    /// Requests a tick of the whole queue at this interval, until the task is cancelled. Then `nudges` ends.
    func run(every interval: Duration) async {
        // Workers that were started together must not tick together.
        var pause = interval * Double.random(in: 0...1)
        while !Task.isCancelled {
            try? await Task.sleep(for: pause)
            requestTick()
            pause = interval
        }
        nudge.finish()
    }
}
