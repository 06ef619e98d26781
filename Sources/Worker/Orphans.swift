import HaulBus
import HaulContract
import HaulStorage

/// Hidden files of a root, and whether their jobs still want them.
struct Orphans: Sendable {
    /// A file that is of no use, and the state of the job that it was of.
    struct Settled: Sendable {
        let file: Leftover
        let id: String
        /// nil: its job was removed.
        let state: JobState?
    }

    private static let page = 1000

    let queues: [Queue]

    /// Takes out those of which Redis says that their jobs are settled. A job that is not found leaves its file where it is,
    /// so it matters little if Redis cannot be asked, or if what moves meanwhile hides one behind the end of a page.
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

    /// Those of jobs that were removed lately, of whose runs a worker was killed before it could unlink them, or even tell of them.
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

    /// Another installation may share the root and know a job of the same name: what has no final name is only unwanted if
    /// this job's own runs made it.
    private static func isUnwanted(_ partial: Leftover, by job: JobRecord?) -> Bool {
        guard let job, job.state == .completed || job.state == .cancelled else { return false }
        return partial.isPlaced || job["generation"] == partial.generation
            || !partial.runs.isDisjoint(with: job.endedRuns)
    }
}
