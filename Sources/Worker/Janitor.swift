import HaulBus
import HaulContract
import HaulStorage
import Logging

/// Unlinks hidden partial files that nobody will go on with: at the start, and then as often as costs little.
struct Janitor: Sendable {
    /// Seconds, for files whose job Redis does not know as unfinished. Longer than failed jobs are kept: a younger one may
    /// belong to a queue that shares the root and is not served here.
    var age: Int64 = 8 * 86_400
    /// Seconds, for files whose job Redis knows as completed or cancelled: nobody goes on with them. A worker died before it
    /// unlinked them, or never heard that it should, or kept one lest a failover undo the settling.
    var settledAge: Int64 = 50
    /// Unfinished jobs in one state of one queue that are looked at.
    var most = 1_000_000

    /// From the end of one look to the next: so long that looking takes a hundredth of the time at most.
    private static let pauses = (shortest: Duration.seconds(10), longest: Duration.seconds(3600))

    let store: any Store
    let attendants: [QueueAttendant]
    let log: Logger
    private let orphans: Orphans
    private var hasToldOfTooMany = false
    /// Files whose jobs may want them, and when these were last changed. They are asked about again once an hour.
    private var wanted: [String: Leftover.Version] = [:]

    init(store: any Store, attendants: [QueueAttendant], log: Logger) {
        (self.store, self.attendants, self.log) = (store, attendants, log)
        orphans = Orphans(queues: attendants.map(\.queue))
    }

    mutating func run() async {
        var last: ContinuousClock.Instant?
        while !Task.isCancelled {
            let begun = ContinuousClock.now
            let isFull = last.map { begun - $0 >= Self.pauses.longest } ?? true
            if isFull { last = begun }
            await sweep(isFull: isFull)
            let pause = (ContinuousClock.now - begun) * 100
            try? await Task.sleep(for: min(max(pause, Self.pauses.shortest), Self.pauses.longest))
        }
    }

    /// One look; one that is not `isFull` is for what has come since the last one, and costs Redis nothing if that is nothing.
    mutating func sweep(isFull: Bool = true) async {
        // What was there before Redis was asked cannot be a later run's.
        let found = await store.leftovers(olderThan: settledAge).filter { isFull || wanted[$0.path] != $0.version }
        guard !found.isEmpty else { return }
        var others = Dictionary(grouping: found, by: \.key)
        // Probes, which are no job's.
        await remove(others.removeValue(forKey: "") ?? [])
        await remove(await orphans.takeSettled(from: &others).map(\.file))
        if isFull { wanted = [:] }
        for file in others.values.joined() { wanted[file.path] = file.version }
        guard isFull else { return }
        let old = others.mapValues { $0.filter { $0.age > age } }.filter { !$0.value.isEmpty }
        guard !old.isEmpty, let unfinished = await unfinished() else { return }
        await remove(old.filter { !unfinished.contains($0.key) }.flatMap(\.value))
    }

    /// Of all unfinished jobs, what names their partial files; nil if Redis cannot be asked, or there are too many to know
    /// them all: a file must not go because its job was not among the first.
    private mutating func unfinished() async -> Set<String>? {
        var keys: Set<String> = []
        for attendant in attendants {
            guard let counts = try? await attendant.queue.stats().counts else { return nil }
            for state in JobState.allCases where state != .completed && state != .cancelled {
                guard counts[state] ?? 0 < most else {
                    tellOfTooMany(state, attendant)
                    return nil
                }
                guard let ids = try? await attendant.queue.ids(in: state, limit: most) else { return nil }
                for id in ids { keys.insert(PartialKey.of(id, in: attendant.queue.name)) }
            }
        }
        return keys
    }

    private mutating func tellOfTooMany(_ state: JobState, _ attendant: QueueAttendant) {
        guard !hasToldOfTooMany else { return }
        hasToldOfTooMany = true
        log.warning(
            "partial files of unknown jobs are not swept: too many jobs to know them all",
            metadata: ["queue": "\(attendant.queue.name)", "state": "\(state)", "most": "\(most)"])
    }

    private func remove(_ leftovers: [Leftover]) async {
        guard !leftovers.isEmpty else { return }
        for leftover in await store.remove(leftovers) {
            log.info("an orphaned partial file is removed", metadata: ["file": "\(leftover.path)"])
        }
    }
}
