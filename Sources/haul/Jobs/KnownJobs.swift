import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// The jobs that a queue knows: jobs that have a hash, and waiting jobs that no worker has claimed yet.
struct KnownJobs {
    var states: [String: JobState] = [:]

    /// - Parameter waiting: Jobs that are known to wait in the queue, by id.
    static func find(
        _ ids: [String], in queue: Queue, waiting: [String: ListedJob] = [:]
    ) async throws -> KnownJobs {
        var known = KnownJobs()
        let fields = try await queue.fields(["state"], of: ids)
        for (id, fields) in zip(ids, fields) {
            known.states[id] = fields["state"].flatMap(JobState.init) ?? (waiting[id] == nil ? nil : .queued)
        }
        let missing = Set(ids.filter { known.states[$0] == nil })
        guard !missing.isEmpty else { return known }
        do throws(RedisError) {
            for id in try await queue.waiting(for: missing, in: queue.waitingLists()).keys {
                known.states[id] = .queued
            }
        } catch {
            // Without permission to read the waiting jobs, these ids count as unknown.
            guard error.code == .noPermission else { throw ExitStatus.printing(error) }
        }
        return known
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
