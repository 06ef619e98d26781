import HaulExecutors
import Synchronization

/// A rate limit in bytes per second, for one transfer or shared by many.
///
/// A reader may take a whole chunk while the bucket holds any credit. So a chunk may put the bucket into debt, and the
/// reader waits until the debt is paid. The average rate is exact. A burst is at most a tenth of a second's amount.
package final class TokenBucket: Sendable {
    private struct State {
        var rate: Double
        var tokens: Double
        var filled: UInt64
        /// The number of transfers that wait for this bucket. Each gets an equal part of the credit.
        var waiting = 0
        /// When the rate lease ends, in monotonic nanoseconds. Nothing may be taken after that.
        var leaseEnd = UInt64.max
        /// Bytes taken in all.
        var taken: Int64 = 0

        var capacity: Double { rate / 10 }
        var isUnlimited: Bool { rate == .infinity }

        /// A transfer has waited since the last call of `use`.
        var hasWaited = false

        mutating func fill(_ now: UInt64) {
            if now >= leaseEnd {
                tokens = min(tokens, 0)
                filled = now
                return
            }
            guard now > filled else { return }
            tokens = min(capacity, tokens + rate * Double(now - filled) / 1e9)
            filled = now
        }
    }

    private let state: Mutex<State>

    /// - Parameter bytesPerSecond: At least 1.
    package init(bytesPerSecond: Int64) {
        let rate = Double(max(bytesPerSecond, 1))
        state = Mutex(State(rate: rate, tokens: rate / 10, filled: monotonicNanoseconds()))
    }

    /// A bucket without a limit, until a rate lease is granted.
    package init() {
        state = Mutex(State(rate: .infinity, tokens: .infinity, filled: monotonicNanoseconds()))
    }

    package var bytesPerSecond: Int64 { state.withLock { $0.isUnlimited ? .max : Int64($0.rate) } }

    var isUnlimited: Bool { state.withLock { $0.isUnlimited } }

    /// Grants a rate lease: a part of a larger limit until `end` (monotonic nanoseconds). Nothing may be taken after
    /// that, or if the part is 0.
    package func grantLease(bytesPerSecond: Int64, until end: UInt64) {
        let now = monotonicNanoseconds()
        state.withLock { state in
            state.fill(now)
            let wasUnlimited = state.isUnlimited
            (state.rate, state.leaseEnd) = (Double(max(bytesPerSecond, 0)), end)
            state.tokens = wasUnlimited ? 0 : min(state.tokens, state.capacity)
            // Time that passed without a limit gives no credit.
            state.filled = now
        }
    }

    /// Lets nothing be taken until a rate lease is granted.
    package func close() { grantLease(bytesPerSecond: 0, until: .max) }

    /// Removes the limit.
    package func removeLimit() {
        state.withLock { ($0.rate, $0.tokens, $0.leaseEnd) = (.infinity, .infinity, .max) }
    }

    /// The bytes taken in all, and whether a transfer has waited since the last call.
    package func use() -> (taken: Int64, wasShort: Bool) {
        state.withLock { state in
            defer { state.hasWaited = false }
            return (state.taken, state.hasWaited || state.waiting > 0)
        }
    }

    /// Changes the rate from now on.
    package func setRate(bytesPerSecond: Int64) {
        let now = monotonicNanoseconds()
        state.withLock { state in
            state.fill(now)
            state.rate = Double(max(bytesPerSecond, 1))
            state.tokens = min(state.tokens, state.capacity)
        }
    }

    /// The maximum to take at once even if more is available, so that the flow is even.
    var maxChunk: Int { state.withLock { $0.isUnlimited ? .max : max(1024, Int($0.capacity)) } }

    /// Whether anything may be taken at `now`, in monotonic nanoseconds.
    func isOpen(_ now: UInt64) -> Bool {
        state.withLock { state in
            state.fill(now)
            return state.tokens > 0
        }
    }

    /// Whether transfers wait for this bucket, so that an added transfer waits behind them.
    var hasWaiting: Bool { state.withLock { $0.waiting > 0 && !$0.isUnlimited } }

    /// The bytes that one waiting transfer may take now without overtaking the others.
    func fairShare(_ now: UInt64) -> Int {
        state.withLock { state in
            state.fill(now)
            return state.isUnlimited ? .max : Int(max(state.tokens, 0)) / max(state.waiting, 1)
        }
    }

    func take(_ count: Int) {
        state.withLock { state in
            state.tokens -= Double(count)
            state.taken += Int64(count)
        }
    }

    func join() {
        state.withLock { state in
            state.waiting += 1
            state.hasWaited = true
        }
    }

    func leave() { state.withLock { $0.waiting -= 1 } }
}
