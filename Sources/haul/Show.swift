import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show one job. What was pushed as a secret is left out; a response is shown as it came.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "A job's id.", completion: Completer.jobs) var id: String
    @Flag(help: "All fields of its hash as they are, internal ones as well.") var all = false

    func validate() throws { try Selection.check([id]) }

    func run() async throws {
        let queue = try await common.connect()
        guard let record = try await printingErrors({ () throws(RedisError) in try await queue.job(id) }) else {
            return try await showWaiting(in: queue)
        }
        if common.json { return Terminal.line(JobView(record: record).json) }
        if all { return Terminal.line(JobView(record: record).text) }
        let now = try await printingErrors { () throws(RedisError) in try await queue.now() }
        for line in JobPage(record: record, now: now, waitReason: await reason(of: record, in: queue)).lines(
            width: Terminal.width ?? 100)
        { Terminal.line(line) }
    }

    /// What a queued job waits for; nil if it waits for its turn, or if the user may not read elements.
    private func reason(of record: JobRecord, in queue: Queue) async -> String? {
        guard record.state == .queued, let lists = try? await queue.waitingLists() else { return nil }
        return (try? await queue.waiting(for: [id], in: lists.deferred))?[id]?.waitReason
    }

    /// A job that no worker has claimed has no hash. Its element is shown.
    private func showWaiting(in queue: Queue) async throws {
        guard let job = try? await queue.waiting(for: id) else {
            throw KnownJobs.complain([id], in: queue, "haul list shows the known jobs")
        }
        let url = job.maskedURL ?? ""
        if common.json {
            var object = JSONObject()
            object.set("id", id)
            object.set("state", "queued")
            object.set("url", url)
            object.set("waiting", job.waitReason)
            return Terminal.line(object.text)
        }
        Terminal.line(id)
        let state = job.waitReason.map { "queued, waits for \($0)" } ?? "queued; no worker has seen it yet"
        Terminal.line("  state  \(state)".printable)
        if !url.isEmpty { Terminal.line("  url    \(url)".printable) }
    }
}
