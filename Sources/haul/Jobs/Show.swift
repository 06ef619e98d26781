import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal
import HaulWeb

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
        let named = try await JobArguments.find(jobs, in: queue)
        var (ids, unknown) = (named.ids, named.unknownURLs)
        if !filter.isEmpty {
            ids = try await filter.ids(in: filter.states(else: JobState.allCases), of: queue)
            if ids.isEmpty { throw ExitStatus.printing(.jobFailed, "the queue \(queue.name) has no such job") }
        }
        for (index, id) in ids.enumerated() {
            if index > 0, !common.json { Terminal.line("") }
            if !(try await show(id, of: queue, named.waiting[id])) { unknown.append(id) }
        }
        guard !unknown.isEmpty else { return }
        let caveat = try await KnownJobs.find(unknown, in: queue).caveat
        throw KnownJobs.reportUnknown(
            unknown, in: queue,
            caveat
                ?? (named.unknownURLs.isEmpty
                    ? "haul list shows the known jobs" : "a URL must be whole, with its query"))
    }

    /// Returns whether the job is known.
    ///
    /// - Parameter waiting: The job as it waits in the queue, if that is known.
    private func show(_ id: String, of queue: Queue, _ waiting: ListedJob?) async throws -> Bool {
        var claimed = try await queue.job(id)
        if claimed == nil {
            let searched = waiting == nil ? try? await queue.waiting(for: id) : nil
            if let job = waiting ?? searched {
                await showWaiting(job, in: queue)
                return true
            }
            // A worker may have taken the job in the meantime.
            claimed = try await queue.job(id)
        }
        guard let record = claimed else { return false }
        if common.json {
            Terminal.line(record.json())
        } else if all {
            Terminal.line(JobView(record: record).text)
        } else {
            let now = try await queue.time()
            let reason = await reason(of: record, in: queue)
            let page = JobPage(
                record: record, now: now, waitsFor: reason,
                bottlenecks: reason == nil ? await bottlenecks(of: record, in: queue) : [],
                workerFault: await workerFault(of: record, in: queue, at: now),
                stoppedBy: (try? await queue.changeThatStopped(record))?.author,
                batchStops: await batchStops(of: record, in: queue))
            for line in page.lines(width: Terminal.width ?? 100) { Terminal.line(line) }
            if record.state.isFinal {
                let searched = waiting == nil ? try? await queue.waiting(for: id) : nil
                if (waiting ?? searched) != nil {
                    Terminal.line("  A newer push of the job waits in the queue, and begins it anew.")
                }
            }
        }
        return true
    }

    /// What slows the job; nothing if the user may not read it.
    private func bottlenecks(of record: JobRecord, in queue: Queue) async -> [Bottleneck] {
        (try? await QueueReaderCache(queue).bottlenecks(of: record)) ?? []
    }

    /// What is wrong with the worker of a running job; nil if it is at work, or if the user may not read workers.
    private func workerFault(of record: JobRecord, in queue: Queue, at now: Int64) async -> String? {
        guard record.state == .running, let name = record["worker"], let workers = try? await queue.workers()
        else { return nil }
        guard let worker = workers.first(where: { $0.name == name })?.fields else { return "is gone" }
        guard WorkerState(worker, now: now) == .lost else { return nil }
        return "is silent for \(Age.text(now - WorkerState.seen(worker)))"
    }

    /// The control operations that are in force for the job's batches; nothing if the user may not read them.
    private func batchStops(of record: JobRecord, in queue: Queue) async -> [String: String] {
        guard let batches = try? await queue.stoppedBatches(of: record), !batches.isEmpty else { return [:] }
        let changes = (try? await queue.changes()) ?? []
        let stops = batches.map { batch in
            let author = changes.first { $0.stopped(batch) }.map { " by \($0.author)" } ?? ""
            return (batch.name, (batch.wanted ?? "") + author)
        }
        return Dictionary(stops) { one, _ in one }
    }

    /// What a queued job waits for; nil if it waits for its turn, or if the user may not read elements.
    private func reason(of record: JobRecord, in queue: Queue) async -> String? {
        guard record.state == .queued else { return nil }
        return (try? await queue.waiting(for: [record.id], deferredOnly: true))?[record.id]?.waitsFor
    }

    /// A job that no worker has claimed has no hash. Its element is shown.
    private func showWaiting(_ job: ListedJob, in queue: Queue) async {
        let record = JobRecord(job: job, state: .queued, fields: [:])
        if common.json { return Terminal.line(record.json()) }
        var facts = [("state", job.waitsFor.map { "queued, waits for \($0)" } ?? "queued; no worker has seen it yet")]
        if job.waitsFor == nil, let now = try? await queue.time() {
            let found = await bottlenecks(of: record, in: queue).map { $0.text(at: now) }
            if !found.isEmpty { facts.append(("slowed by", found.joined(separator: "; "))) }
        }
        if let url = job.maskedURL { facts.append(("url", url)) }
        if let batch = job.batch { facts.append(("batch", batch)) }
        if let group = job.group { facts.append(("group", group)) }
        let width = facts.map(\.0.count).max() ?? 0
        Terminal.line(job.id)
        for (name, text) in facts { Terminal.line("  \(name.padded(to: width))  \(text)".printable) }
    }
}
