import HaulBus
import HaulContract
import HaulStorage
import Logging

/// Removes hidden partial files that no run will continue: at the start, and then as often as it costs little.
struct Janitor: Sendable {
    /// Seconds. A file of this age is removed if Redis does not know its job as unfinished. The age is longer than
    /// failed jobs are kept: a younger file may belong to a queue that shares the root and is not served here.
    var age: Int64 = 8 * 86_400
    /// Seconds. A file of this age is removed if its job is completed or cancelled. Its worker died before it removed
    /// the file, did not receive the request to do so, or kept the file in case a failover undid the settle.
    var settledAge: Int64 = 50
    /// If a queue has more unfinished jobs in one state, the janitor does not read them.
    var maxJobs = 1_000_000

    /// The pause between two sweeps, so long that sweeping takes at most a hundredth of the time.
    private static let pauses = (min: Duration.seconds(10), max: Duration.seconds(3600))

    let store: any DurableStore
    let queueServers: [QueueServer]
    let log: Logger
    private let orphans: Orphans
    private var hasWarnedOfTooMany = false
    /// Files that their jobs may want, with their versions. Redis is asked about them again once an hour.
    private var wanted: [String: Leftover.Version] = [:]

    init(store: any DurableStore, queueServers: [QueueServer], log: Logger) {
        (self.store, self.queueServers, self.log) = (store, queueServers, log)
        orphans = Orphans(queues: queueServers.map(\.queue))
    }

    mutating func run() async {
        var last: ContinuousClock.Instant?
        while !Task.isCancelled {
            let begun = ContinuousClock.now
            let isFull = last.map { begun - $0 >= Self.pauses.max } ?? true
            if isFull { last = begun }
            await sweep(isFull: isFull)
            let pause = (ContinuousClock.now - begun) * 100
            try? await Task.sleep(for: min(max(pause, Self.pauses.min), Self.pauses.max))
        }
    }

    /// One look at all files. Unless it is `isFull`, only new files count; without any, Redis is not asked.
    mutating func sweep(isFull: Bool = true) async {
        // List the files before asking Redis, so that none of them belongs to a later run.
        let found = await store.leftovers(olderThan: settledAge).filter { isFull || wanted[$0.path] != $0.version }
        guard !found.isEmpty else { return }
        var others = Dictionary(grouping: found, by: \.key)
        // Files without a key are probes, which belong to no job.
        await remove(others.removeValue(forKey: "") ?? [])
        await remove(await orphans.takeSettled(from: &others).map(\.file))
        if isFull { wanted = [:] }
        for file in others.values.joined() { wanted[file.path] = file.version }
        guard isFull else { return }
        let old = others.mapValues { $0.filter { $0.age > age } }.filter { !$0.value.isEmpty }
        guard !old.isEmpty, let first = await unfinished(), let second = await unfinished() else { return }
        await remove(old.filter { !first.contains($0.key) && !second.contains($0.key) }.flatMap(\.value))
    }

    /// The keys of the partial files of all unfinished jobs. nil if Redis cannot be asked, or if there are too many
    /// jobs to read all: no file may be removed only because its job was not read. A job that moves from one state to
    /// another meanwhile may be missing.
    private mutating func unfinished() async -> Set<String>? {
        var keys: Set<String> = []
        for queueServer in queueServers {
            guard let counts = try? await queueServer.queue.stats().counts else { return nil }
            for state in JobState.allCases where state != .completed && state != .cancelled {
                guard counts[state] ?? 0 < maxJobs else {
                    warnOfTooMany(state, queueServer)
                    return nil
                }
                guard let ids = try? await queueServer.queue.ids(in: state, limit: maxJobs) else { return nil }
                for id in ids { keys.insert(PartialKey.of(id, in: queueServer.queue.name)) }
            }
        }
        return keys
    }

    private mutating func warnOfTooMany(_ state: JobState, _ queueServer: QueueServer) {
        guard !hasWarnedOfTooMany else { return }
        hasWarnedOfTooMany = true
        log.warning(
            "partial files of unknown jobs are not removed: the queue has too many jobs to read all their ids",
            metadata: ["queue": "\(queueServer.queue.name)", "state": "\(state)", "limit": .stringConvertible(maxJobs)])
    }

    private func remove(_ leftovers: [Leftover]) async {
        guard !leftovers.isEmpty else { return }
        for leftover in await store.remove(leftovers) {
            log.info("an orphaned partial file is removed", metadata: ["file": "\(leftover.path)"])
        }
    }
}
