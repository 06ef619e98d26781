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
        guard let record = try await reaching({ () throws(RedisError) in try await queue.job(id) }) else {
            return try await showWaiting(in: queue)
        }
        if common.json { return Terminal.line(JobView(record: record).json) }
        if all { return Terminal.line(JobView(record: record).text) }
        let now = try await reaching { () throws(RedisError) in try await queue.now() }
        for line in JobPage(record: record, now: now).lines(width: Terminal.width ?? 100) { Terminal.line(line) }
    }

    /// A job that no worker has seen has no hash. Its element is shown.
    private func showWaiting(in queue: Queue) async throws {
        let found = try? await queue.inLine([id])
        guard let url = found?[id] else { throw KnownJobs.complain([id], in: queue, "haul list shows the known jobs") }
        if common.json {
            return Terminal.line(
                JSON.object([
                    ("id", JSON.quoted(id)), ("state", JSON.quoted("queued")), ("url", JSON.quoted(url)),
                ]))
        }
        Terminal.line(id)
        Terminal.line("  state  queued; no worker has seen it yet")
        if !url.isEmpty { Terminal.line("  url    \(url)".printable) }
    }
}
