import ArgumentParser
import HaulWorker

@main
struct Haul: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "haul",
        abstract: "Downloads through a fleet of workers on Redis.",
        discussion: "Exit status: 0 all well, 1 a job failed, 2 usage, 3 Redis cannot be used, 130 interrupted.",
        version: Version.text,
        subcommands: [
            Get.self, Push.self, WorkerCommand.self, List.self, Show.self, Watch.self, Stats.self, Workers.self,
            Pause.self, Resume.self, Cancel.self, Retry.self, Remove.self, QueueCommand.self, Check.self,
            LoadFunctions.self,
        ])

    static func main() async {
        Terminal.occupyClosedDescriptors()
        Signals.ignoreFailedWrites()
        Signals.interruptCommand()
        do {
            try checkArguments()
            try checkCommand()
            var command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let status as ExitStatus {
            status.leave()
        } catch {
            let isUsage = exitCode(for: error) == .validationFailure || exitCode(for: error).rawValue == 64
            guard isUsage else { exit(withError: error) }
            Terminal.complain(fullMessage(for: error))
            ExitStatus.usage.leave()
        }
    }

    /// A command that is not there is the likeliest slip, and the parser names none that is near.
    private static func checkCommand() throws {
        guard let word = CommandLine.arguments.dropFirst().first, !word.hasPrefix("-"), word != "help" else { return }
        let commands = configuration.subcommands.map { $0._commandName }
        guard !commands.contains(word) else { return }
        let suggestion = Suggestion.nearest(to: word, among: commands).map { "Did you mean \($0)? " } ?? ""
        throw ExitStatus.because(.usage, "\"\(word)\" is no command. \(suggestion)haul --help lists all of them.")
    }

    /// Swift replaces what is no UTF-8: that would be another URL, or another file.
    private static func checkArguments() throws {
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let text = CommandLine.unsafeArgv[index], String(validatingCString: text) == nil else { continue }
            throw ExitStatus.because(
                .usage, "argument \(index), \(String(cString: text)), is no UTF-8 text: write a URL's bytes as %XX")
        }
    }
}
