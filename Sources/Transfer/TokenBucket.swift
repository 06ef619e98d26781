import Contract
import Synchronization

/// A limit of bytes per second, shared by any number of transfers. (libcurl's own is off by 2 to 3 times in the first
/// seconds, and knows one transfer only.)
package final class TokenBucket: Sendable {
    private struct State {
        var tokens: Double
        var filled: ContinuousClock.Instant
    }

    private let rate: Double
    /// A tenth of a second's worth: no longer bursts than that.
    private let capacity: Double
    private let state: Mutex<State>

    package init(bytesPerSecond: Int64) {
        rate = Double(max(1, bytesPerSecond))
        capacity = rate / 10
        state = Mutex(State(tokens: capacity, filled: .now))
    }

    /// Takes `count` bytes, which have arrived already: the bucket may go into debt.
    func take(_ count: Int) { state.withLock { $0.tokens -= Double(count) } }

    /// How long nothing may be read, zero if something may.
    func wait(at now: ContinuousClock.Instant = .now) -> Duration {
        state.withLock { state in
            state.tokens = min(capacity, state.tokens + (now - state.filled).secondsValue * rate)
            state.filled = now
            return state.tokens > 0 ? .zero : .seconds(-state.tokens / rate) + .milliseconds(1)
        }
    }
}
