import Bus
import Contract
import Download
import Logging
import Redis

/// Unlinks hidden partial files whose job Redis no longer holds unfinished: at the start and every hour.
struct Janitor: Sendable {
    /// Seconds. Longer than failed jobs are kept: a younger file may belong to a queue that shares the root and is not
    /// served here.
    static let age = 8 * 86_400

    let store: Store
    let attendants: [QueueAttendant]
    let log: Logger

    func run() async {
        while !Task.isCancelled {
            await sweep()
            try? await Task.sleep(for: .seconds(3600))
        }
    }

    private func sweep() async {
        let found = store.partials(olderThan: Self.age)
        guard !found.isEmpty else { return }
        var alive: Set<String> = []
        for attendant in attendants {
            for state in JobState.allCases where state != .completed && state != .cancelled {
                guard let ids = try? await attendant.queue.ids(in: state, limit: 1_000_000) else { return }
                for id in ids { alive.insert(PartialKey.of(id, in: attendant.queue.name)) }
            }
        }
        for (path, key) in found where !alive.contains(key) {
            store.unlink(path)
            log.info("an orphaned partial file is removed", metadata: ["file": "\(path)"])
        }
    }
}
