import Bus
import Download
import Executors
import Redis
import Synchronization

/// Partial files of settled jobs where a failover may still undo the settling: their second link proves to whoever runs
/// such a job again that the finished file is its own. They go when a replica has heard, and when the primary that was told
/// would have been left by now if it had been replaced; else they are left to the janitor.
final class SettledPartials: Sendable {
    private struct Entry {
        let place: PartialPlace
        let primary: RedisURL.Address
        let settled: ContinuousClock.Instant
    }

    /// Longer than a client stays with a primary that sentinels have replaced.
    private static let age: Duration = .seconds(3)
    private static let most = 10_000

    private let queue: Queue
    private let identity: WorkerIdentity
    private let store: Store
    private let blocking: BlockingPool
    private let entries = Mutex<[Entry]>([])

    init(_ queue: Queue, _ identity: WorkerIdentity, _ store: Store, _ blocking: BlockingPool) {
        (self.queue, self.identity, self.store, self.blocking) = (queue, identity, store, blocking)
    }

    /// After the reply to a settling.
    func add(_ place: PartialPlace) async {
        guard let primary = await queue.redis.address else { return }
        let entry = Entry(place: place, primary: primary, settled: .now)
        entries.withLock { $0.append(entry) }
    }

    /// Unlinks what is old enough, every second until the task is cancelled; then the rest.
    func tend() async {
        while (try? await Task.sleep(for: .seconds(1))) != nil { await sweep(olderThan: Self.age) }
        // A task of its own: Redis is not asked for a cancelled one.
        await Task { await sweep(olderThan: .zero) }.value
    }

    func sweep(olderThan age: Duration) async {
        let now = ContinuousClock.now
        guard entries.withLock({ $0.first.map { now - $0.settled >= age } ?? false }) else { return }
        guard await queue.isReplicated(by: identity) else {
            // While there is no replica they wait, as many as are worth remembering.
            return entries.withLock { $0.removeFirst(max(0, $0.count - Self.most)) }
        }
        let primary = await queue.redis.address
        let due = entries.withLock { entries in
            let due = entries.prefix { now - $0.settled >= age }
            entries.removeFirst(due.count)
            return due
        }
        let places = due.filter { $0.primary == primary }.map(\.place)
        await blocking.run { [store] in for place in places { store.unlink(place) } }
    }
}
