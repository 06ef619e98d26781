import Bus
import Download
import Executors
import Redis
import Synchronization

/// Unlinks the partial files of a queue's jobs when they are of no use any more.
///
/// Where a failover may still undo a settling, the second link of a completed job's file is kept for a while: it proves to
/// whoever runs the job again that the finished file is its own. It goes when a replica has heard, and when the primary
/// that was told would have been left by now if it had been replaced; else it is left to the janitor.
final class Leftovers: Sendable {
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

    /// After a run. `settlement` is nil if it was not ours to settle.
    func tidy(_ run: Run, _ download: Download, after settlement: Settlement?) async {
        switch settlement {
        case .completed where queue.redis.url.kind != .single:
            if let place = download.partialPlace { await keep(place) }
        case .completed, .cancelled: await download.unlinkPartial()
        case nil:
            // Whoever has the job goes on with the generation that Redis knows, and with no other.
            guard let place = download.partialPlace, let known = try? await queue.jobs([run.id]),
                known.first?["generation"] != place.generation
            else { return }
            await blocking.run { [store] in store.unlinkUnplaced(place) }
        default: break
        }
    }

    /// What a tick said of jobs that nobody runs, as far as it is on this store.
    func unlink(_ dropped: [DroppedFile]) async {
        let near = dropped.filter { $0.store == store.id }
        guard !near.isEmpty else { return }
        await blocking.run { [store, queue] in
            for file in near {
                if let inode = file.inode { store.unlinkFinished(file.file, inode: inode) }
                guard !file.generation.isEmpty else { continue }
                let key = PartialKey.of(file.id, in: queue.name)
                store.unlinkUnplaced(PartialPlace(file: file.file, key: key, generation: file.generation))
            }
        }
    }

    /// After the reply to a settling.
    func keep(_ place: PartialPlace) async {
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
