import HaulBus
import HaulContract
import HaulStorage

/// Decides which hidden files of a root no job needs any longer.
struct Orphans: Sendable {
    /// A file of no use, and the state of its job.
    struct Settled: Sendable {
        let file: Leftover
        let id: String
        /// nil if the job was removed.
        let state: JobState?
    }

    private static let page = 1000

    let queues: [Queue]

    /// Takes the files of settled jobs out of `files`, and returns those of no use. If a job is not found, its file
    /// stays. So it does no harm if Redis cannot be asked, or if the list changes between two pages.
    func takeSettled(from files: inout [String: [Leftover]]) async -> [Settled] {
        var settled: [Settled] = []
        for queue in queues {
            for state in [JobState.completed, .cancelled] {
                var start = 0
                while !files.isEmpty, let ids = try? await queue.ids(in: state, from: start, limit: Self.page),
                    !ids.isEmpty
                {
                    for id in ids {
                        guard let known = files.removeValue(forKey: PartialKey.of(id, in: queue.name)) else { continue }
                        let job = try? await queue.job(id)
                        settled += known.filter { Self.isUnwanted($0, by: job) }.map {
                            Settled(file: $0, id: id, state: state)
                        }
                    }
                    start += ids.count
                }
            }
            settled += await takeRemoved(from: &files, in: queue)
        }
        return settled
    }

    /// The same for jobs that were removed lately. A worker was killed before it could remove or report the files.
    private func takeRemoved(from files: inout [String: [Leftover]], in queue: Queue) async -> [Settled] {
        var (removed, start): ([Settled], Int) = ([], 0)
        while !files.isEmpty, let jobs = try? await queue.removedRuns(from: start, limit: Self.page), !jobs.isEmpty {
            for (id, runs) in jobs where !runs.isEmpty {
                guard let known = files.removeValue(forKey: PartialKey.of(id, in: queue.name)) else { continue }
                removed += known.filter { !runs.isDisjoint(with: $0.runs) }.map {
                    Settled(file: $0, id: id, state: nil)
                }
            }
            start += jobs.count
        }
        return removed
    }

    /// Another installation may share the root and have a job of the same id. So a file without a final name is
    /// unwanted only if one of this job's own runs made it.
    private static func isUnwanted(_ partial: Leftover, by job: JobRecord?) -> Bool {
        guard let job, job.state == .completed || job.state == .cancelled else { return false }
        return partial.hasFinalName || job["generation"] == partial.generation
            || !partial.runs.isDisjoint(with: job.endedRuns)
    }
}
