import HaulActivities
import HaulBus
import HaulContract
import HaulRedis
import HaulStorage
import Synchronization

/// Unlinks the partial files of a queue's jobs when they are of no use any more.
///
/// Where a failover may still undo a settling, the second link of a completed job's file is kept for a while: it proves to
/// whoever runs the job again that the finished file is its own. It goes when a replica has heard, and when the primary
/// that was told would have been left by now if it had been replaced. Where no replica tells, or the server was started again
/// meanwhile, it goes after less than a minute, if Redis still knows that this run has completed the job.
final class Leftovers: Sendable {
    private struct Entry {
        let place: PartialPlace
        let job: Run
        /// The run of the server that was told.
        let run: String
        let settled: ContinuousClock.Instant
        /// Where the server's stream of writes ended some time after the settling.
        var mark: Int64?
    }

    /// Longer than a client stays with a primary that sentinels have replaced.
    private static let age: Duration = .seconds(3)
    private static let patience: Duration = .seconds(40)
    private static let most = 10_000
    private static let page = 500

    private let queue: Queue
    private let store: any Store
    private let entries = Mutex<[Entry]>([])

    init(_ queue: Queue, _ store: any Store) { (self.queue, self.store) = (queue, store) }

    /// After a run. `settlement` is nil if it was not ours to settle. Where the next job follows `soon`, its way to the disk
    /// serves for this one's file as well.
    func cleanUp(_ run: Run, _ activity: any Activity, after settlement: Settlement?, isSoon: Bool = false) async {
        switch settlement {
        case .completed where await queue.redis.mayFailOver:
            if let place = activity.partialPlace { await keep(place, of: run) }
        case .completed: await activity.discard(soon: isSoon)
        // It has no file.
        case .answered: break
        case .cancelled: await activity.discard(soon: false)
        case nil:
            // Whoever has the job goes on with the generation that Redis knows, and with no other.
            guard let place = activity.partialPlace, let known = try? await queue.jobs([run.id]),
                known.first?["generation"] != place.generation
            else { return }
            await store.discardUnplaced([place])
        default: break
        }
    }

    /// What a tick said of jobs that nobody runs, as far as it is on this store.
    func unlink(_ dropped: [DroppedFile]) async {
        let near = dropped.filter { $0.store == store.id }
        for file in near { if let identity = file.finished { await store.delete(file.file, identity) } }
        let places = near.filter { !$0.generation.isEmpty }.map { file in
            PartialPlace(file: file.file, key: PartialKey.of(file.id, in: queue.name), generation: file.generation)
        }
        if !places.isEmpty { await store.discardUnplaced(places) }
    }

    /// What was to be deleted before its job was pushed again. True if it is not there any more, as far as this store knows.
    func delete(_ doomed: DoomedFile) async -> Bool {
        guard doomed.store == store.id else { return false }
        await store.delete(doomed.file, doomed.identity)
        return true
    }

    /// After the reply to a settling.
    func keep(_ place: PartialPlace, of job: Run) async {
        guard let run = await queue.redis.serverRun else { return }
        let entry = Entry(place: place, job: job, run: run, settled: .now)
        entries.withLock { $0.append(entry) }
    }

    /// Unlinks what is old enough, every second until the task is cancelled; then the rest, of which replicas tell within
    /// a second.
    func run() async {
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            await store.runChores()
            await sweep(olderThan: Self.age)
        }
        await store.runChores()
        // A task of its own: in a cancelled one no sleep would last.
        await Task {
            for _ in 1...15 {
                guard await sweep(olderThan: .zero) else { return }
                try? await Task.sleep(for: .milliseconds(100))
            }
        }.value
    }

    /// Whether there is something left for which a replica's word may come.
    @discardableResult
    func sweep(olderThan age: Duration, patience: Duration = Leftovers.patience) async -> Bool {
        let asked = ContinuousClock.now
        guard entries.withLock({ !$0.isEmpty }), let replication = await queue.replication() else { return false }
        let (due, doubtful, isLeft) = entries.withLock { entries in
            for index in entries.indices where entries[index].mark == nil && entries[index].settled <= asked {
                entries[index].mark = replication.offset
            }
            let isDue = { (entry: Entry) in
                // Of what another server was told, or this one before it was started again, this one's replicas say nothing.
                guard entry.run == replication.run, let mark = entry.mark, let acknowledged = replication.acknowledged
                else { return false }
                return mark <= acknowledged && asked - entry.settled >= age
            }
            let due = entries.filter(isDue)
            entries.removeAll(where: isDue)
            let doubtful = entries.filter { asked - $0.settled >= patience }
            entries.removeAll { asked - $0.settled >= patience }
            // While there is no replica they wait, as many as are worth remembering.
            entries.removeFirst(max(0, entries.count - Self.most))
            return (due, doubtful, replication.acknowledged != nil && entries.contains { $0.run == replication.run })
        }
        let gone = due + (await stillCompleted(doubtful))
        for entry in gone { await store.discard(entry.place) }
        return isLeft
    }

    /// Those of which Redis knows what we told it; what it cannot be asked about waits on.
    private func stillCompleted(_ doubtful: [Entry]) async -> [Entry] {
        var result: [Entry] = []
        for start in stride(from: 0, to: doubtful.count, by: Self.page) {
            let some = doubtful[start..<min(start + Self.page, doubtful.count)]
            guard let known = try? await queue.jobs(some.map(\.job.id)) else {
                entries.withLock { $0 = doubtful[start...] + $0 }
                break
            }
            let runs = Set(
                known.filter { $0.state == .completed }.map { Run(id: $0.id, token: $0["token"] ?? "") })
            result += some.filter { runs.contains($0.job) }
        }
        return result
    }
}
