import Bus
import Contract
import Download
import Executors
import Logging

/// Unlinks hidden partial files that nobody will go on with: at the start and every hour.
struct Janitor: Sendable {
    /// Seconds, for files whose job Redis does not know as unfinished. Longer than failed jobs are kept: a younger one may
    /// belong to a queue that shares the root and is not served here.
    var age: Int64 = 8 * 86_400
    /// Seconds, for files whose job Redis knows as completed or cancelled: nobody goes on with them. A worker died before it
    /// unlinked them, or never heard that it should, or kept one lest a failover undo the settling.
    var settledAge: Int64 = 60
    /// Unfinished jobs in one state of one queue that are looked at.
    var most = 1_000_000

    private static let page = 1000

    let store: Store
    let blocking: BlockingPool
    let attendants: [QueueAttendant]
    let log: Logger
    private var hasToldOfTooMany = false

    init(store: Store, blocking: BlockingPool, attendants: [QueueAttendant], log: Logger) {
        (self.store, self.blocking, self.attendants, self.log) = (store, blocking, attendants, log)
    }

    mutating func run() async {
        while !Task.isCancelled {
            await sweep()
            try? await Task.sleep(for: .seconds(3600))
        }
    }

    mutating func sweep() async {
        // What was there before Redis was asked cannot be a later run's.
        let found = await blocking.run { [store, settledAge] in store.partials(olderThan: settledAge) }
        guard !found.isEmpty else { return }
        var others = Dictionary(grouping: found, by: \.key)
        // Probes, which are no job's.
        await unlink(others.removeValue(forKey: "") ?? [])
        await unlink(await takeSettled(from: &others))
        let old = others.mapValues { $0.filter { $0.age > age } }.filter { !$0.value.isEmpty }
        guard !old.isEmpty, let wanted = await unfinished() else { return }
        await unlink(old.filter { !wanted.contains($0.key) }.flatMap(\.value))
    }

    /// Takes out those of which Redis says that their jobs are settled. A job that is not found leaves its file where it is,
    /// so it matters little if Redis cannot be asked, or if what moves meanwhile hides one behind the end of a page.
    private func takeSettled(from files: inout [String: [Store.FoundPartial]]) async -> [Store.FoundPartial] {
        var settled: [Store.FoundPartial] = []
        for attendant in attendants {
            for state in [JobState.completed, .cancelled] {
                var start = 0
                while let ids = try? await attendant.queue.ids(in: state, from: start, limit: Self.page), !ids.isEmpty {
                    for id in ids {
                        guard let known = files.removeValue(forKey: key(of: id, attendant)) else { continue }
                        let job = try? await attendant.queue.job(id)
                        settled += known.filter { Self.isUnwanted($0, by: job) }
                    }
                    start += ids.count
                }
            }
        }
        return settled
    }

    /// Another installation may share the root and know a job of the same name: what has no final name is only unwanted if
    /// this job's own runs made it.
    private static func isUnwanted(_ partial: Store.FoundPartial, by job: JobRecord?) -> Bool {
        guard let job, job.state == .completed || job.state == .cancelled else { return false }
        return partial.isPlaced || job["generation"] == partial.generation
            || [job["token"], job["settled"]].contains(partial.run)
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
                for id in ids { keys.insert(key(of: id, attendant)) }
            }
        }
        return keys
    }

    private func key(of id: String, _ attendant: QueueAttendant) -> String {
        PartialKey.of(id, in: attendant.queue.name)
    }

    private mutating func tellOfTooMany(_ state: JobState, _ attendant: QueueAttendant) {
        guard !hasToldOfTooMany else { return }
        hasToldOfTooMany = true
        log.warning(
            "partial files of unknown jobs are not swept: too many jobs to know them all",
            metadata: ["queue": "\(attendant.queue.name)", "state": "\(state)", "most": "\(most)"])
    }

    private func unlink(_ partials: [Store.FoundPartial]) async {
        let gone = await blocking.run { [store] in partials.filter { store.unlink($0) } }
        for partial in gone {
            log.info("an orphaned partial file is removed", metadata: ["file": "\(partial.path)"])
        }
    }
}
