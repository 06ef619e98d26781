import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// Which jobs a queue knows: by their hashes, or because they wait in line and no worker has seen them.
struct KnownJobs {
    var states: [String: JobState] = [:]

    static func find(_ ids: [String], in queue: Queue) async throws -> KnownJobs {
        var known = KnownJobs()
        let fields = try await reaching { () throws(RedisError) in try await queue.fields(["state"], of: ids) }
        for (id, fields) in zip(ids, fields) { known.states[id] = fields["state"].flatMap(JobState.init) }
        let missing = Set(ids.filter { known.states[$0] == nil })
        guard !missing.isEmpty else { return known }
        do throws(RedisError) {
            for id in try await queue.inLine(missing).keys { known.states[id] = .queued }
        } catch {
            // A user who may not see the jobs in line cannot be told which ids are unknown.
            guard error.code == .noPermission else { throw ExitStatus.because(error) }
        }
        return known
    }

    /// Says which ids are not known, and what may be done about it.
    static func complain(_ ids: [String], in queue: Queue, _ advice: String) -> ExitStatus {
        for id in ids.dropLast() { Terminal.complain("haul: no job \(id) is known in the queue \(queue.name)") }
        return ExitStatus.because(
            .jobFailed, "no job \(ids.last ?? "") is known in the queue \(queue.name) (\(advice))")
    }
}
