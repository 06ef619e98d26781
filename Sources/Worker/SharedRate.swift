import HaulBus
import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

/// A worker's rate lease (Lua/limits/rates.lua): the rate that it obeys, and the rate that it could use.
///
/// It lapses with the worker's lease, by this worker's clock, from before it was requested. So a worker that was
/// frozen, or cannot reach Redis, uses nothing that has been lent to another since.
final class SharedRate: Sendable {
    private struct State {
        var isLimited = false
        /// What the bucket may use, in bytes per second.
        var keeps: Int64 = 0
        /// The last measurements: bytes per second, and whether the rate lease was too small.
        var measurements: [(speed: Int64, isShort: Bool)] = []
        var last: (at: ContinuousClock.Instant, taken: Int64)?
        /// When there was last any demand.
        var used = ContinuousClock.now
    }

    /// The time between two requests. Demand is that of the last second: unused rate reaches other workers within two.
    static let interval = Duration.milliseconds(250)
    private static let remembered = 4
    /// A worker requests more than it used, so that it can use more.
    private static let growth = 1.25
    private static let least: Int64 = 128 << 10
    /// For how long a host's rate lease is kept without any demand.
    private static let patience = Duration.seconds(2)

    let name: String
    let bucket: TokenBucket
    private let state: Mutex<State>

    /// The rate lease for the queue's own limit, if there is one.
    init() {
        (name, bucket) = (RateLeaseRequest.ofQueue, TokenBucket())
        state = Mutex(State())
    }

    /// The rate lease for a host's limit, from when a transfer waits for it.
    init(of host: String, _ bucket: TokenBucket) {
        (name, self.bucket) = (host, bucket)
        state = Mutex(State(isLimited: true))
    }

    /// Notes whether there is a limit, as a tick's reply says.
    func record(isLimited: Bool) {
        state.withLock { state in
            if state.isLimited, !isLimited {
                bucket.removeLimit()
                (state.keeps, state.last) = (0, nil)
                state.measurements = []
            }
            state.isLimited = isLimited
        }
    }

    /// The request for a rate lease; nil while there is no limit.
    func ask() -> RateLeaseRequest? {
        let now = ContinuousClock.now
        return state.withLock { state in
            guard state.isLimited else { return nil }
            measure(&state, now)
            let isShort = state.measurements.isEmpty || state.measurements.contains { $0.isShort }
            let speed = state.measurements.map { $0.speed }.max() ?? 0
            if isShort || speed > 0 { state.used = now }
            if name != RateLeaseRequest.ofQueue, now - state.used > Self.patience {
                // Stop the use of the rate lease before that is reported.
                bucket.close()
                state.keeps = 0
                return RateLeaseRequest(name, keeps: 0, wants: .none)
            }
            return RateLeaseRequest(
                name, keeps: state.keeps,
                wants: isShort ? .all : .some(Int64(Double(speed) * Self.growth) + Self.least))
        }
    }

    private func measure(_ state: inout State, _ now: ContinuousClock.Instant) {
        let use = bucket.use()
        defer { state.last = (now, use.taken) }
        guard let last = state.last, now > last.at else { return }
        let seconds = (now - last.at).secondsValue
        // Two requests in quick succession say nothing about a speed.
        guard seconds > 0.05 else { return }
        state.measurements.append((Int64(Double(use.taken - last.taken) / seconds), use.wasShort))
        state.measurements = state.measurements.suffix(Self.remembered)
    }

    /// Applies the reply to a request sent at `sent`. True if the lease has shrunk, which is to be reported at once.
    func take(_ rateLease: RateLease?, sent: ContinuousClock.Instant, lease: Duration) -> Bool {
        guard let rateLease else { return false }
        let left = lease - (ContinuousClock.now - sent)
        return state.withLock { state in
            guard state.isLimited else { return false }
            state.keeps = rateLease.bytesPerSecond
            bucket.grantLease(
                bytesPerSecond: rateLease.bytesPerSecond,
                until: monotonicNanoseconds() + UInt64(max(left, .zero).secondsValue * 1e9))
            return rateLease.isSmaller
        }
    }
}
