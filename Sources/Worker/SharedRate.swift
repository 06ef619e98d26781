import HaulBus
import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

/// A worker's share of a limit of rate (Lua/shares.lua): what it keeps to, and what it could use.
///
/// The share lapses with the lease, by this worker's clock, counted from before it was asked for. So a worker that was frozen, or cannot
/// reach Redis, uses nothing that has been lent to another since.
final class SharedRate: Sendable {
    private struct State {
        var isLimited = false
        /// What the bucket has been given.
        var keeps: Int64 = 0
        /// Bytes per second in the last looks, and whether there was too little.
        var looks: [(speed: Int64, isShort: Bool)] = []
        var last: (at: ContinuousClock.Instant, taken: Int64)?
        /// When something was last wanted.
        var used = ContinuousClock.now
    }

    /// Between two questions. Demand is what was wanted in the last second: so what one does not use reaches another within two.
    static let interval = Duration.milliseconds(250)
    private static let remembered = 4
    /// More than it used, so that it can use more.
    private static let growth = 1.25
    private static let least: Int64 = 128 << 10
    /// For how long a host's share is kept while nothing is wanted of the host.
    private static let patience = Duration.seconds(2)

    let name: String
    let bucket: TokenBucket
    private let state: Mutex<State>

    /// The share of the queue's limit, which there may be or not.
    init() {
        (name, bucket) = (ShareQuestion.ofQueue, TokenBucket())
        state = Mutex(State())
    }

    /// The share of a host's limit, from when something waits for it.
    init(of host: String, _ bucket: TokenBucket) {
        (name, self.bucket) = (host, bucket)
        state = Mutex(State(isLimited: true))
    }

    /// Notes what a tick says.
    func note(isLimited: Bool) {
        state.withLock { state in
            if state.isLimited, !isLimited {
                bucket.lift()
                (state.keeps, state.last) = (0, nil)
                state.looks = []
            }
            state.isLimited = isLimited
        }
    }

    /// What is to be asked; nil while there is no limit.
    func ask() -> ShareQuestion? {
        let now = ContinuousClock.now
        return state.withLock { state in
            guard state.isLimited else { return nil }
            look(&state, now)
            let isShort = state.looks.isEmpty || state.looks.contains { $0.isShort }
            let speed = state.looks.map { $0.speed }.max() ?? 0
            if isShort || speed > 0 { state.used = now }
            if name != ShareQuestion.ofQueue, now - state.used > Self.patience {
                // Nothing is used from before it is said.
                bucket.shut()
                state.keeps = 0
                return ShareQuestion(name, keeps: 0, wants: .none)
            }
            return ShareQuestion(
                name, keeps: state.keeps,
                wants: isShort ? .all : .some(Int64(Double(speed) * Self.growth) + Self.least))
        }
    }

    private func look(_ state: inout State, _ now: ContinuousClock.Instant) {
        let use = bucket.use()
        defer { state.last = (now, use.taken) }
        guard let last = state.last, now > last.at else { return }
        let seconds = (now - last.at).secondsValue
        // Two questions in a row say nothing of a speed.
        guard seconds > 0.05 else { return }
        state.looks.append((Int64(Double(use.taken - last.taken) / seconds), use.wasShort))
        state.looks = state.looks.suffix(Self.remembered)
    }

    /// Takes an answer to a question that was sent at `sent`. True: it is to be said at once that the worker keeps to it.
    func take(_ share: RateShare?, sent: ContinuousClock.Instant, lease: Duration) -> Bool {
        guard let share else { return false }
        let left = lease - (ContinuousClock.now - sent)
        return state.withLock { state in
            guard state.isLimited else { return false }
            state.keeps = share.bytesPerSecond
            bucket.lend(
                bytesPerSecond: share.bytesPerSecond,
                until: monotonicNanoseconds() + UInt64(max(left, .zero).secondsValue * 1e9))
            return share.isSmaller
        }
    }
}
