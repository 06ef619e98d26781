import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show jobs. What was pushed as a secret is left out; a response is shown as it came.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "Ids or whole URLs of jobs.", completion: Completer.jobs) var jobs: [String] = []
    @OptionGroup var filter: FilterOptions
    @Flag(help: "All fields of its hash as they are, internal ones as well.") var all = false

    func validate() throws {
        try JobArguments.check(jobs)
        guard jobs.isEmpty != filter.isEmpty else {
            throw ValidationError("Give ids or URLs of jobs, or filters such as --state, and not both")
        }
    }

    func run() async throws {
        let queue = try await common.connect()
        var (ids, unknown) = try await JobArguments.ids(jobs, in: queue)
        if !filter.isEmpty {
            ids = try await filter.ids(in: filter.states(else: JobState.allCases), of: queue)
            if ids.isEmpty { throw ExitStatus.printing(.jobFailed, "the queue \(queue.name) has no such job") }
        }
        let urls = unknown
        for (index, id) in ids.enumerated() {
            if index > 0, !common.json { Terminal.line("") }
            if !(try await show(id, of: queue)) { unknown.append(id) }
        }
        guard !unknown.isEmpty else { return }
        throw KnownJobs.reportUnknown(
            unknown, in: queue, urls.isEmpty ? "haul list shows the known jobs" : "a URL must be whole, with its query")
    }

    /// Returns whether the job is known.
    private func show(_ id: String, of queue: Queue) async throws -> Bool {
        guard let record = try await queue.job(id) else {
            return try await showWaiting(id, in: queue)
        }
        if common.json {
            Terminal.line(record.json())
        } else if all {
            Terminal.line(JobView(record: record).text)
        } else {
            let now = try await queue.time()
            let page = JobPage(
                record: record, now: now, waitsFor: await reason(of: record, in: queue),
                stoppedBy: (try? await queue.changeThatStopped(record))?.author)
            for line in page.lines(width: Terminal.width ?? 100) { Terminal.line(line) }
        }
        return true
    }

    /// What a queued job waits for; nil if it waits for its turn, or if the user may not read elements.
    private func reason(of record: JobRecord, in queue: Queue) async -> String? {
        guard record.state == .queued, let lists = try? await queue.waitingLists() else { return nil }
        return (try? await queue.waiting(for: [record.id], in: lists.deferred))?[record.id]?.waitsFor
    }

    /// A job that no worker has claimed has no hash. Its element is shown. Returns whether there is one.
    private func showWaiting(_ id: String, in queue: Queue) async throws -> Bool {
        guard let job = try? await queue.waiting(for: id) else { return false }
        if common.json {
            Terminal.line(JobRecord(job: job, state: .queued, fields: [:]).json())
            return true
        }
        Terminal.line(id)
        let state = job.waitsFor.map { "queued, waits for \($0)" } ?? "queued; no worker has seen it yet"
        Terminal.line("  state  \(state)".printable)
        if let url = job.maskedURL { Terminal.line("  url    \(url)".printable) }
        if let group = job.group { Terminal.line("  group  \(group)".printable) }
        return true
    }
}
