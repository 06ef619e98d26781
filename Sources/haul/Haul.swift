import ArgumentParser
import HaulContract
import HaulDirect
import HaulRedis
import HaulTerminal
import Synchronization

@main
struct Haul: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        // Each command sets its name: the parser asks for all names again and again, and otherwise derives them from
        // the types.
        commandName: "haul",
        abstract: "Downloads through a fleet of workers on Redis.",
        discussion: "Exit status: 0 all well, 1 a job failed, 2 usage, 3 Redis cannot be used, 130 interrupted.",
        version: Version.text,
        subcommands: [
            Get.self, Put.self, Push.self, CallCommand.self, CacheCommand.self, WorkerCommand.self, List.self,
            Show.self,
            Watch.self, EventsCommand.self, Top.self, Stats.self, Up.self,
            Workers.self,
            Queues.self, Batches.self, ScheduleCommand.self,
            Pause.self, Resume.self, Cancel.self, Retry.self, Remove.self, QueueCommand.self, Check.self,
            StoreCommand.self,
            WebCommand.self, LoadFunctions.self, Health.self, Completions.self, Manual.self,
        ])

    /// The names of the commands.
    static var verbs: [String] { configuration.subcommands.map { $0._commandName } }

    static func main() async {
        ExitStatus.optionSources.withLock { $0 = { Settings.sources(of: $0) + GetDefaults.sources(of: $0) } }
        Terminal.occupyClosedDescriptors()
        Signals.ignoreFailedWrites()
        Signals.interruptCommand()
        do {
            try checkArguments()
            let words = try GetDefaults.complete(
                ForeignArguments.replaced(in: Array(CommandLine.arguments.dropFirst())))
            try check(words[...], of: self, "haul")
            if var command = await frequentCommand(words) {
                try await command.run()
                ExitStatus.done.exitProcess()
            }
            // Asynchronous, because the completion of words asks Redis for ids and names.
            var command = try await asyncParseAsRoot(
                Settings.complete(words))
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let status as ExitStatus {
            status.exitProcess()
        } catch let error as RedisError where error.code != .cancelled {
            ExitStatus.printing(error).exitProcess()
        } catch {
            let isUsage = exitCode(for: error) == .validationFailure || exitCode(for: error).rawValue == 64
            guard isUsage else { exit(withError: error) }
            let message = UsageError.message(fullMessage(for: error), words: CommandLine.arguments)
            Terminal.printError(message + ExitStatus.sources(of: message))
            ExitStatus.usage.exitProcess()
        }
        ExitStatus.done.exitProcess()
    }

    /// The command of the words, if it is one that scripts start often and has no error. The parser looks at all
    /// commands otherwise, which takes a good part of the time of a small download. It then also reports the errors.
    ///
    /// The configurations of these commands name `haul`, so that the parser does not look for a request of a script for
    /// completions first: that took half a millisecond.
    private static func frequentCommand(_ words: [String]) async -> (any AsyncParsableCommand)? {
        let frequent: [any AsyncParsableCommand.Type] = [Get.self, Put.self, CallCommand.self]
        guard let verb = words.first, let type = frequent.first(where: { $0._commandName == verb }) else { return nil }
        return try? await type.asyncParseAsRoot(Array(words.dropFirst())) as? any AsyncParsableCommand
    }

    /// Checks the command's name before the parser does, because the parser suggests no similar name.
    ///
    /// - Parameter path: The words of the command line before `words`.
    private static func check(
        _ words: ArraySlice<String>, of command: any ParsableCommand.Type, _ path: String
    ) throws {
        let commands = command.configuration.subcommands
        guard !commands.isEmpty, let word = words.first, !word.hasPrefix("-"), word != "help" else { return }
        if let next = commands.first(where: { $0._commandName == word }) {
            return try check(words.dropFirst(), of: next, "\(path) \(word)")
        }
        if path == "haul", word.contains("://") || word.contains("/") && word.contains(".") {
            let shown = MaskedURL.keepingQuery(word)
            throw ExitStatus.printing(
                .usage,
                "a command is missing before \(shown): haul get \(shown) downloads it, and haul push URL queues it for workers"
            )
        }
        let near = Suggestion.nearest(to: word, among: commands.map { $0._commandName })
        let suggestion = near.map { "Did you mean \(path) \($0)? " } ?? ""
        throw ExitStatus.printing(
            .usage, "\"\(word)\" is not a command of \(path). \(suggestion)\(path) --help lists all of them.")
    }

    /// Refuses arguments that are not UTF-8. Swift would replace the invalid bytes, so that they named another URL or
    /// file.
    private static func checkArguments() throws {
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let text = CommandLine.unsafeArgv[index], String(validatingCString: text) == nil else { continue }
            throw ExitStatus.printing(
                .usage, "argument \(index), \(String(cString: text)), is not UTF-8 text: write a URL's bytes as %XX")
        }
    }
}

/// The messages of the argument parser in the form that all messages of the command have: "haul: ", the cause, and the
/// way out.
enum UsageError {
    /// - Parameters:
    ///   - message: The parser's text: the cause, perhaps help about an argument, and the usage.
    ///   - words: The words of the command line.
    static func message(_ message: String, words: [String]) -> String {
        var lines = message.split(separator: "\n").map(String.init)
        guard !lines.isEmpty else { return "haul: \(message)" }
        var cause = lines.removeFirst()
        if cause.hasPrefix("Error: ") { cause.removeFirst("Error: ".count) }
        if cause.hasSuffix(".") { cause.removeLast() }
        // Names of options and words in capitals keep their case.
        let first = cause.prefix { $0 != " " }
        if first.dropFirst().allSatisfy(\.isLowercase) { cause = cause.prefix(1).lowercased() + cause.dropFirst() }
        if let sentence = choice(cause, lines) ?? option(cause, words) { return "haul: \(sentence)\(help(lines))" }
        // A sentence of ours names the way out. The parser's own names only the cause.
        if cause.contains(": ") || cause.hasSuffix("?") { return "haul: \(cause)" }
        let isMissing = cause.hasPrefix("missing expected argument")
        let usage = isMissing ? lines.first { $0.hasPrefix("Usage: ") }.map { "\n" + $0 } ?? "" : ""
        return "haul: \(cause)\(help(lines))\(usage)"
    }

    /// The sentence about a value that is not one of a few: the parser lists these in one of two forms.
    private static func choice(_ cause: String, _ lines: [String]) -> String? {
        let form = /the value '(.*)' is invalid for '([^ ']*).*?'\. Please provide one of (.*)/
        guard let match = cause.wholeMatch(of: form) else { return nil }
        let listed = lines.filter { $0.hasPrefix("  - ") }.map { String($0.dropFirst(4)) }
        let choices =
            listed.isEmpty
            ? match.3.replacing("'", with: "").replacing(" and ", with: " or ")
            : listed.dropLast().joined(separator: ", ") + " or " + listed[listed.count - 1]
        return "\(match.2) must be \(choices), not \"\(match.1)\""
    }

    /// The sentence about a value that begins with "-", which the parser takes for an option.
    private static func option(_ cause: String, _ words: [String]) -> String? {
        if let match = cause.wholeMatch(of: /missing value for '([^ ']*).*'/) {
            guard let index = words.lastIndex(of: String(match.1)), index + 1 < words.count else { return nil }
            let (name, value) = (words[index], words[index + 1])
            let form = name.hasPrefix("--") ? "\(name)=\(value)" : "\(name)\(value)"
            return
                "\(name) has no value, because \(value) begins with - like an option: write \(form) if it is the value"
        }
        guard cause.hasPrefix("missing expected argument"), let number = words.first(where: { Double($0) ?? 0 < 0 })
        else { return nil }
        return "\(cause), because \(number) begins with - like an option: write -- before it if it is the argument"
    }

    /// "; see haul get --help", from the parser's last line.
    private static func help(_ lines: [String]) -> String {
        guard let quoted = lines.last?.split(separator: "'"), quoted.count > 1 else { return "" }
        return "; see \(quoted[1])"
    }
}

/// Scripts that complete words in shells, made from the same declarations as `--help`.
struct Completions: ParsableCommand {
    enum Shell: String, CaseIterable, ExpressibleByArgument { case bash, zsh, fish }

    static let configuration = CommandConfiguration(
        abstract: "Print a shell's script that completes commands, options, ids of jobs and names of queues.",
        discussion: """
            bash: source <(haul completions bash), or put it into /usr/share/bash-completion/completions/haul. \
            zsh: put it into a directory of $fpath as _haul. \
            fish: put it into ~/.config/fish/completions/haul.fish.
            """)
    @Argument(help: "bash, zsh or fish.") var shell: Shell

    func run() throws {
        guard let known = CompletionShell(rawValue: shell.rawValue) else { return }
        let script = Haul.completionScript(for: known)
        Terminal.write(script.hasSuffix("\n") ? script : script + "\n")
    }
}
