import HaulBus
import HaulContract
import HaulStorage

/// Hidden files of a root, and whether their jobs still want them.
struct Orphans: Sendable {
    /// A file that is of no use, and the state of the job that it was of.
    struct Settled: Sendable {
        let file: Leftover
        let id: String
        let state: JobState
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
        }
        return settled
    }

    /// Another installation may share the root and know a job of the same name: what has no final name is only unwanted if
    /// this job's own runs made it.
    private static func isUnwanted(_ partial: Leftover, by job: JobRecord?) -> Bool {
        guard let job, job.state == .completed || job.state == .cancelled else { return false }
        return partial.isPlaced || job["generation"] == partial.generation
            || [job["token"], job["settled"]].contains(partial.run)
    }
}
