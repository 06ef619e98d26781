import Bus
import Contract
import Download
import Executors
import Logging

/// Unlinks hidden partial files that nobody will go on with: at the start and every hour.
struct Janitor: Sendable {
    /// Seconds, for files whose job Redis does not know as unfinished. Longer than failed jobs are kept: a younger one may
    /// belong to a queue that shares the root and is not served here.
    static let age: Int64 = 8 * 86_400
    /// Seconds, for files that have their final name and whose job Redis knows as settled: a worker died in between, or
    /// a failover might have undone the settling.
    var settledAge: Int64 = 60

    /// Jobs in one state of one queue that are looked at.
    private static let most = 1_000_000

    let store: Store
    let blocking: BlockingPool
    let attendants: [QueueAttendant]
    let log: Logger

    func run() async {
        while !Task.isCancelled {
            await sweep()
            try? await Task.sleep(for: .seconds(3600))
        }
    }

    func sweep() async {
        let found = await blocking.run { [store, settledAge] in store.partials(olderThan: settledAge) }
        // What was there before Redis was asked cannot be a later run's.
        let (old, young) = (found.filter { $0.age > Self.age }, found.filter { $0.age <= Self.age && $0.isPlaced })
        let settled: [JobState] = [.completed, .cancelled]
        if !old.isEmpty, let alive = await keys(of: JobState.allCases.filter { !settled.contains($0) }) {
            await unlink(old.filter { !alive.contains($0.key) })
        }
        if !young.isEmpty, let settled = await keys(of: settled) {
            await unlink(young.filter { settled.contains($0.key) })
        }
    }

    /// Of all jobs in these states, what names their partial files; nil if Redis cannot be asked, or there are too many to
    /// know them all: a file must not go because its job was not among the first.
    private func keys(of states: [JobState]) async -> Set<String>? {
        var keys: Set<String> = []
        for attendant in attendants {
            guard let counts = try? await attendant.queue.stats().counts else { return nil }
            for state in states {
                guard counts[state] ?? 0 < Self.most,
                    let ids = try? await attendant.queue.ids(in: state, limit: Self.most)
                else { return nil }
                for id in ids { keys.insert(PartialKey.of(id, in: attendant.queue.name)) }
            }
        }
        return keys
    }

    private func unlink(_ partials: [Store.FoundPartial]) async {
        await blocking.run { [store] in for partial in partials { store.unlink(partial.path) } }
        for partial in partials {
            log.info("an orphaned partial file is removed", metadata: ["file": "\(partial.path)"])
        }
    }
}
