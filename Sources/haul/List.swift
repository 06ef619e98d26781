import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis

struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "List jobs, by state.")

    @OptionGroup var common: CommonOptions
    @Option(
        help:
            "queued, scheduled, running, paused, completed, failed, cancelled or rejected; all but rejected if not given."
    ) var state: String?
    @Option(help: "At most so many of each state.") var limit = 1000

    func validate() throws {
        guard limit >= 1 else { throw ValidationError("--limit must be 1 or more.") }
    }

    /// What a limit has left out is said apart from the list, so that programs may read that.
    private func tellRest(of state: JobState, shown: Int, in queue: Queue) async throws {
        guard shown >= limit else { return }
        let count = try await reaching { () throws(RedisError) in try await queue.count(in: state) }
        guard count > shown else { return }
        Terminal.complain(
            "haul: \(count - shown) more jobs are \(state.rawValue): --limit \(count) shows them, too, or --state \(state.rawValue) these alone"
        )
    }

    func run() async throws {
        let queue = try await common.connect()
        if state == "rejected" {
            for text in try await reaching({ () throws(RedisError) in try await queue.rejected(limit: limit) }) {
                Terminal.line(text)
            }
            return
        }
        let states = try state.map { text in
            guard let state = JobState(rawValue: text) else {
                throw ExitStatus.because(
                    .usage,
                    "\"\(text)\" is no state: \(JobState.allCases.map(\.rawValue).joined(separator: ", ")) or rejected")
            }
            return [state]
        }
        for state in states ?? JobState.allCases {
            guard let ids = try await ids(in: state, of: queue, isAsked: states != nil) else { continue }
            try await tellRest(of: state, shown: ids.count, in: queue)
            let records = try await reaching { () throws(RedisError) in try await queue.jobs(ids) }
            for record in records {
                Terminal.line(common.json ? JobView(record: record).json : JobView(record: record).line)
            }
            // In line, and not seen by any worker yet.
            let seen = Set(records.map(\.id))
            for id in ids where !seen.contains(id) && state == .queued {
                Terminal.line(common.json ? "{\"id\":\(JSON.quoted(id)),\"state\":\"queued\"}" : "\(id)  queued")
            }
        }
    }
    /// nil if this user may not see them and did not ask for them by name: elements in line hold secrets.
    private func ids(in state: JobState, of queue: Queue, isAsked: Bool) async throws -> [String]? {
        do throws(RedisError) {
            return try await queue.ids(in: state, limit: limit)
        } catch {
            guard error.code == .noPermission, state == .queued, !isAsked else { throw ExitStatus.because(error) }
            Terminal.complain(
                "haul: this user may not see what waits in line: queued jobs are not listed (haul stats counts them)")
            return nil
        }
    }
}
