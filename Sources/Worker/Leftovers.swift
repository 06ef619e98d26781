import HaulActivities
import HaulBus
import HaulContract
import HaulRedis
import HaulStorage
import Synchronization

/// Removes the partial files of a queue's jobs when they are of no more use.
///
/// A crash of Redis or a failover may undo a settle. So the second link of a completed job's file is kept for a while: it
/// proves to a later run of the job that the finished file is the job's own. With one server it is removed when Redis has
/// certainly synced the settle. Where a failover is possible, it is removed when a replica has the settle, and when a
/// client would have left a primary that was replaced. If no replica reports, or if the server was restarted, it is
/// removed after less than a minute, if Redis still says that this run has completed the job.
final class Leftovers: Sendable {
    private struct Entry {
        let location: PartialLocation
        let job: Run
        /// The run id of the server that has the settle.
        let run: String
        let settled: ContinuousClock.Instant
        /// The server's replication offset some time after the settle.
        var settleOffset: Int64?
    }

    /// Longer than a client stays with a primary that sentinels have replaced, and than Redis takes to sync what it has
    /// written (`appendfsync everysec`).
    private static let age: Duration = .seconds(3)
    private static let maxWait: Duration = .seconds(40)
    private static let maxEntries = 50_000
    private static let pageSize = 500

    private let queue: Queue
    private let store: any DurableStore
    private let entries = Mutex<[Entry]>([])

    init(_ queue: Queue, _ store: any DurableStore) { (self.queue, self.store) = (queue, store) }

    /// Cleans up after a run.
    ///
    /// - Parameters:
    ///   - settlement: nil if another worker has the job.
    ///   - isSoon: The next job follows at once, so the removal can be done together with that job's work on the disk.
    func cleanUp(
        _ run: Run, _ remainder: any RunRemainder, after settlement: Settlement?, isSoon: Bool = false
    ) async {
        switch settlement {
        case .completed:
            let mayBeUndone = if store.provesByLinks { true } else { await queue.redis.mayFailOver }
            if mayBeUndone, let location = remainder.partialLocation {
                await retain(location, of: run)
            } else {
                await remainder.discard(soon: isSoon)
            }
        // A response has no partial file.
        case .responded: break
        case .cancelled:
            if let location = remainder.partialLocation { await store.withdrawUnanswered(location) }
            await remainder.discard(soon: false)
        case nil:
            guard let location = remainder.partialLocation, let known = try? await queue.jobs([run.id]) else { return }
            // The other worker can continue only the generation that Redis knows. Any other one is of no use.
            if known.first?["generation"] != location.generation { await store.discardUnplaced([location]) }
            guard let job = known.first else { return }
            let completed = CompletedFile(hash: job.fields)
            // A cancelled job continues no generation. A completed one has the file of its record, and a consumer may have
            // deleted that already, so that nothing has kept this run from giving the name again.
            if job.state == .cancelled || job.state == .completed && completed?.store == store.id {
                await store.withdraw(location, unless: completed?.identity)
            }
        default: break
        }
    }

    /// Deletes a finished file, as requested before its job was pushed again. False if the file is on another store, or
    /// may still be there.
    func delete(_ pendingDeletion: PendingDeletion) async -> Bool {
        guard pendingDeletion.store == store.id else { return false }
        return await store.delete(pendingDeletion.file, pendingDeletion.identity)
    }

    /// Keeps the hidden link until it is old enough to be removed. Must be called after the reply to the settle.
    func retain(_ location: PartialLocation, of job: Run) async {
        guard let run = await queue.redis.serverRun else { return }
        let entry = Entry(location: location, job: job, run: run, settled: .now)
        entries.withLock { $0.append(entry) }
    }

    /// Removes what is old enough, every second until the task is cancelled, and then the rest within 1.5 s.
    func run() async {
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            await store.runDeferredWork()
            await sweep(olderThan: Self.age)
        }
        await store.runDeferredWork()
        // A task of its own, since a sleep in a cancelled task ends at once.
        await Task {
            for _ in 1...15 {
                guard await sweep(olderThan: .zero) else { return }
                try? await Task.sleep(for: .milliseconds(100))
            }
        }.value
    }

    /// Removes what is old enough. Returns whether a replica may yet confirm something of the rest.
    ///
    /// - Parameter mayFailOver: nil for what the connection to Redis says.
    @discardableResult
    func sweep(
        olderThan age: Duration, maxWait: Duration = Leftovers.maxWait, mayFailOver: Bool? = nil
    ) async -> Bool {
        let asked = ContinuousClock.now
        if entries.withLock({ $0.isEmpty }) { return false }
        let replication = await queue.replication()
        let mayFailOver = if let mayFailOver { mayFailOver } else { await queue.redis.mayFailOver }
        let (due, unconfirmed, isLeft) = entries.withLock { entries in
            for index in entries.indices where entries[index].settleOffset == nil && entries[index].settled <= asked {
                entries[index].settleOffset = replication?.offset
            }
            let isDue = { (entry: Entry) in
                // Neither a disk nor replicas may have a settle of another server, or of this one before a restart.
                guard let replication, entry.run == replication.run, asked - entry.settled >= age else { return false }
                guard mayFailOver else { return true }
                guard let settleOffset = entry.settleOffset, let acknowledged = replication.acknowledged else {
                    return false
                }
                return settleOffset <= acknowledged
            }
            var due = entries.filter(isDue)
            entries.removeAll(where: isDue)
            let unconfirmed = entries.filter { asked - $0.settled >= maxWait }
            entries.removeAll { asked - $0.settled >= maxWait }
            // The rest waits, but no more than is worth remembering. The janitor finds what a failover might need.
            let excess = max(0, entries.count - Self.maxEntries)
            if !mayFailOver { due += entries.prefix(excess) }
            entries.removeFirst(excess)
            let isConfirmable = mayFailOver && replication?.acknowledged != nil
            return (due, unconfirmed, isConfirmable && entries.contains { $0.run == replication?.run })
        }
        let gone = due + (await stillCompleted(unconfirmed))
        if !gone.isEmpty { await store.discard(gone.map(\.location)) }
        return isLeft
    }

    /// The entries whose jobs Redis knows as completed by these runs. The rest waits if Redis cannot be asked.
    private func stillCompleted(_ unconfirmed: [Entry]) async -> [Entry] {
        var result: [Entry] = []
        for start in stride(from: 0, to: unconfirmed.count, by: Self.pageSize) {
            let some = unconfirmed[start..<min(start + Self.pageSize, unconfirmed.count)]
            guard let known = try? await queue.jobs(some.map(\.job.id)) else {
                entries.withLock { $0 = unconfirmed[start...] + $0 }
                break
            }
            let runs = Set(
                known.filter { $0.state == .completed }.map { Run(id: $0.id, token: $0["token"] ?? "") })
            result += some.filter { runs.contains($0.job) }
        }
        return result
    }
}

/// The key in the names of a job's partial files. Queues may share a root and have jobs of the same id, so it has both.
enum PartialKey {
    static func of(_ id: String, in queue: QueueName) -> String { SHA1.hex("\(queue)\n\(id)") }
}
