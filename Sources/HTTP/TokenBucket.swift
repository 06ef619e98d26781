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
        /// When the rate is over: from then on nothing may be taken.
        var end = UInt64.max
        /// What has been taken in all: bytes.
        var taken: Int64 = 0

        var capacity: Double { rate / 10 }
        var isUnlimited: Bool { rate == .infinity }

        /// Somebody has waited since `use` was asked for.
        var hasWaited = false

        mutating func fill(_ now: UInt64) {
            if now >= end {
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

    /// `bytesPerSecond` is at least 1.
    package init(bytesPerSecond: Int64) {
        let rate = Double(max(bytesPerSecond, 1))
        state = Mutex(State(rate: rate, tokens: rate / 10, filled: monotonicNanoseconds()))
    }

    /// A bucket without a limit, until it is given a share.
    package init() {
        state = Mutex(State(rate: .infinity, tokens: .infinity, filled: monotonicNanoseconds()))
    }

    package var bytesPerSecond: Int64 { state.withLock { $0.isUnlimited ? .max : Int64($0.rate) } }

    var isUnlimited: Bool { state.withLock { $0.isUnlimited } }

    /// A share of somebody else's limit, which counts until `end` (monotonic nanoseconds): nothing may be taken after that. 0 is
    /// nothing as well.
    package func lend(bytesPerSecond: Int64, until end: UInt64) {
        let now = monotonicNanoseconds()
        state.withLock { state in
            state.fill(now)
            let was = state.isUnlimited
            (state.rate, state.end) = (Double(max(bytesPerSecond, 0)), end)
            state.tokens = was ? 0 : min(state.tokens, state.capacity)
            // What has passed without a limit is no credit.
            state.filled = now
        }
    }

    /// Nothing may be taken until a share is lent.
    package func shut() { lend(bytesPerSecond: 0, until: .max) }

    /// There is no limit any more.
    package func lift() {
        state.withLock { ($0.rate, $0.tokens, $0.end) = (.infinity, .infinity, .max) }
    }

    /// What has been taken in all, and whether somebody has waited since this was asked last.
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

    /// Who can take as much as it likes takes no more than this at once, so that the flow is even.
    var portion: Int { state.withLock { $0.isUnlimited ? .max : max(1024, Int($0.capacity)) } }

    /// Whether anything may be taken at `now`.
    func isOpen(_ now: UInt64) -> Bool {
        state.withLock { state in
            state.fill(now)
            return state.tokens > 0
        }
    }

    /// Whether others queue for this bucket, so that a newcomer queues too.
    var hasWaiting: Bool { state.withLock { $0.waiting > 0 && !$0.isUnlimited } }

    /// What one of those that wait may take now, without running ahead of the others.
    func share(_ now: UInt64) -> Int {
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
