import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// The jobs that a queue knows: jobs that have a hash, and waiting jobs that no worker has claimed yet.
struct KnownJobs {
    var states: [String: JobState] = [:]
    /// Pushes that wait to begin ended jobs anew, by id.
    private(set) var anew: [String: ListedJob] = [:]
    private var lacksPermission = false

    /// Why jobs may count as unknown that are not; nil if all of them were found.
    var caveat: String? {
        lacksPermission ? "it may wait in the queue, but this user of Redis may not read what waits" : nil
    }

    /// - Parameter waiting: Jobs that are known to wait in the queue, by id.
    static func find(
        _ ids: [String], in queue: Queue, waiting: [String: ListedJob] = [:]
    ) async throws -> KnownJobs {
        var known = KnownJobs()
        let fields = try await queue.fields(["state"], of: ids)
        for (id, fields) in zip(ids, fields) {
            let state = fields["state"].flatMap(JobState.init)
            known.states[id] = state
            if state?.isFinal ?? true, let job = waiting[id] { known.record(job) }
        }
        // A push that waits may begin a job anew that has ended.
        let missing = Set(ids.filter { known.states[$0]?.isFinal ?? true })
        guard !missing.isEmpty else { return known }
        do throws(RedisError) {
            for job in try await queue.waiting(for: missing).values { known.record(job) }
        } catch {
            guard error.code == .noPermission else { throw ExitStatus.printing(error) }
            known.lacksPermission = true
        }
        // Workers may have taken jobs in the meantime.
        let unknown = ids.filter { known.states[$0] == nil }
        guard !unknown.isEmpty else { return known }
        for (id, fields) in zip(unknown, try await queue.fields(["state"], of: unknown)) {
            known.states[id] = fields["state"].flatMap(JobState.init)
        }
        return known
    }

    /// Those of some jobs that are not known to have left these states. A job that has ended, and of which another push
    /// waits, is queued: an operation on what has ended would also stop that push.
    static func ids(_ ids: [String], in states: Set<JobState>, of queue: Queue) async throws -> [String] {
        let known = try await find(ids, in: queue)
        return ids.filter { id in known.states[id].map(states.contains) ?? true }
    }

    private mutating func record(_ job: ListedJob) {
        if states[job.id] != nil { anew[job.id] = job }
        states[job.id] = .queued
    }

    /// Prints which ids are not known.
    ///
    /// - Parameter advice: What the user can do. It is printed with the last id.
    static func reportUnknown(_ ids: [String], in queue: Queue, _ advice: String) -> ExitStatus {
        for id in ids.dropLast() { Terminal.printError("haul: no job \(id) is known in the queue \(queue.name)") }
        return ExitStatus.printing(
            .jobFailed, "no job \(ids.last ?? "") is known in the queue \(queue.name) (\(advice))")
    }
}
