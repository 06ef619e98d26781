import HaulExecutors
import Synchronization

/// A limit in bytes per second, for one transfer or shared by any number of them.
///
/// A reader may take a chunk while the bucket holds anything at all, and so runs it into debt by at most that chunk; it
/// waits until the debt is paid. The average is exact, and a burst is at most a tenth of a second's worth.
package final class TokenBucket: Sendable {
    private struct State {
        var rate: Double
        var tokens: Double
        var filled: UInt64
        /// Transfers that wait for this bucket: each gets an equal part of what has come in.
        var waiting = 0

        var capacity: Double { rate / 10 }

        mutating func fill(_ now: UInt64) {
            guard now > filled else { return }
            tokens = min(capacity, tokens + rate * Double(now - filled) / 1e9)
            filled = now
        }
    }

    private let state: Mutex<State>

    /// `bytesPerSecond` is at least 1.
    package init(bytesPerSecond: Int64) {
        let rate = Double(max(bytesPerSecond, 1))
        state = Mutex(State(rate: rate, tokens: rate / 10, filled: monotonicNanoseconds()))
    }

    package var bytesPerSecond: Int64 { state.withLock { Int64($0.rate) } }

    /// Changes the rate from now on.
    package func setRate(bytesPerSecond: Int64) {
        let now = monotonicNanoseconds()
        state.withLock { state in
            state.fill(now)
            state.rate = Double(max(bytesPerSecond, 1))
            state.tokens = min(state.tokens, state.capacity)
        }
    }

    /// Who can take as much as it likes takes no more than this at once, so that the flow is even.
    var portion: Int { state.withLock { max(1024, Int($0.capacity)) } }

    /// Whether anything may be taken at `now`.
    func isOpen(_ now: UInt64) -> Bool {
        state.withLock { state in
            state.fill(now)
            return state.tokens > 0
        }
    }

    /// Whether others queue for this bucket, so that a newcomer queues too.
    var hasWaiting: Bool { state.withLock { $0.waiting > 0 } }

    /// What one of those that wait may take now, without running ahead of the others.
    func share(_ now: UInt64) -> Int {
        state.withLock { state in
            state.fill(now)
            return Int(max(state.tokens, 0)) / max(state.waiting, 1)
        }
    }

    func take(_ count: Int) { state.withLock { $0.tokens -= Double(count) } }

    func join() { state.withLock { $0.waiting += 1 } }

    func leave() { state.withLock { $0.waiting -= 1 } }
}
