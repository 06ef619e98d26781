import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// The options that select workers.
struct WorkerSelection: ParsableArguments {
    @OptionGroup var common: CommonOptions
    @Argument(help: "Names of workers.", completion: Completer.workers) var names: [String]

    /// - Parameter worker: The parent command. Of the options that both have, the parser gives the values to the
    ///   parent, even if they follow the subcommand.
    func setQuiet(_ isQuiet: Bool, beneath worker: WorkerCommand) async throws {
        var common = common
        common.redis = common.redis ?? worker.redis
        common.queue = common.queue ?? worker.queue.last
        let queue = try await common.connect()
        let known = try await queue.workers()
        for name in names where !known.contains(where: { $0.name == name }) {
            let near = Suggestion.nearest(to: name, among: known.map(\.name)).map { " Did you mean \($0)?" } ?? ""
            throw ExitStatus.printing(
                .jobFailed,
                "no worker \(name) serves the queue \(queue.name).\(near) haul workers lists them.".printable)
        }
        for name in names {
            try await queue.setQuiet(name, isQuiet)
            await queue.record(ChangeRecord(setting: "quiet:\(name)=\(isQuiet)"))
            let running = known.first { $0.name == name }?.fields["running"] ?? "0"
            if common.json {
                Terminal.line(JSON.object([("worker", JSON.quoted(name)), ("quiet", String(isQuiet))]))
            } else {
                let rest =
                    isQuiet ? "claims no more jobs of the queue \(queue.name); \(running) run" : "takes jobs again"
                Terminal.line("\(name)  \(rest)".printable)
            }
        }
    }
}

struct QuietWorker: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quiet", abstract: "Let workers finish their jobs of a queue and claim no more.",
        discussion: "It holds until haul worker resume, or until the worker's process ends.")
    @ParentCommand var worker: WorkerCommand
    @OptionGroup var selection: WorkerSelection
    func run() async throws { try await selection.setQuiet(true, beneath: worker) }
}

struct ResumeWorker: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Let quiet workers claim jobs again.")
    @ParentCommand var worker: WorkerCommand
    @OptionGroup var selection: WorkerSelection
    func run() async throws { try await selection.setQuiet(false, beneath: worker) }
}
