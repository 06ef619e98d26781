import ArgumentParser
import HaulContract
import HaulDirect
import HaulTerminal
import Synchronization

/// The options of `haul get` that its file of defaults sets, as words of the command line.
enum GetDefaults {
    /// Options that are about one command.
    private static let refused: Set<String> = [
        "input-file", "metalink", "output", "mirror", "checksum", "config", "print-config", "no-config", "forget",
        "continue", "watch",
    ]
    private static let flags: Set<String> = [
        "anyauth", "digest", "globoff", "newer", "netrc", "no-proxy", "ipv4", "ipv6", "remote-time", "quiet", "verbose",
        "json",
    ]

    /// The options of a command line that replace a default which they exclude.
    private static let replacements: [String: [String]] = [
        "proxy": ["--no-proxy"], "if-exists": ["-N", "--newer"], "newer": ["--if-exists"],
        "bearer": ["-u", "--user", "--digest", "--anyauth"], "user": ["--bearer"], "digest": ["--bearer"],
        "anyauth": ["--bearer"], "ipv4": ["-6", "--ipv6"], "ipv6": ["-4", "--ipv4"],
    ]
    /// The options that exclude an `-o` which writes to a stream, or which names a directory itself.
    private static let replacedByStream: Set = ["on-complete", "on-error", "json", "directory"]
    private static let replacedByDirectory: Set = ["directory"]

    /// The defaults of this process: the option, its word, and its file and line.
    private static let given = Mutex<[(name: String, word: String, line: String)]>([])

    /// A text to append to an error message: the lines of the options that `sentence` names, if their values alone are
    /// wrong.
    static func sources(of sentence: String) -> String {
        given.withLock(\.self).filter { Settings.isNamed($0.name, in: sentence) && !isGood($0.word) }
            .map { " (--\($0.name) comes from \($0.line))" }.joined()
    }

    private static func isGood(_ word: String) -> Bool { (try? Get.parse([word, "https://h/"])) != nil }

    /// The options that have no use beside the values of `-o` in these words.
    private static func replacedByOutputs(of words: [String]) -> Set<String> {
        let names = ["-o", "--output"]
        let outputs =
            zip(words, words.dropFirst()).filter { names.contains($0.0) }.map(\.1)
            + words.filter { $0.hasPrefix("--output=") }.map { String($0.dropFirst("--output=".count)) }
        if outputs.contains(where: GetOutput.isStream) { return replacedByStream }
        return outputs.contains(where: GetOutput.namesDirectory) ? replacedByDirectory : []
    }

    /// Adds the defaults before the words of the command line, which win because they come later.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    static func complete(_ words: [String]) throws -> [String] {
        guard words.first == "get", !words.contains("--no-config"), !words.contains("--help") else { return words }
        let named = words.firstIndex(of: "--config").flatMap { $0 + 1 < words.count ? words[$0 + 1] : nil }
        let joined = words.first { $0.hasPrefix("--config=") }.map { String($0.dropFirst(9)) }
        guard let file = try GetConfiguration(named: named ?? joined) else { return words }
        var defaults: [String] = []
        func isGiven(_ option: String) -> Bool {
            words.contains { $0 == option || $0.hasPrefix(option.hasPrefix("--") ? option + "=" : option) }
        }
        let replaced = replacedByOutputs(of: words)
        for setting in file.settings
        where replacements[setting.name]?.contains(where: isGiven) != true && !replaced.contains(setting.name) {
            func refusal(_ sentence: String) -> ExitStatus {
                .printing(.usage, "\(file.path):\(setting.line): \(sentence)")
            }
            func add(_ word: String) {
                defaults.append(word)
                given.withLock { $0.append((setting.name, word, "\(file.path):\(setting.line)")) }
            }
            let valued = ForeignArguments.longOptionsWithValue[.get] ?? []
            if flags.contains(setting.name) {
                guard let isSet = ["true": true, "false": false][setting.value] else {
                    throw refusal("\(setting.name) must be true or false, not \"\(setting.value)\"")
                }
                if isSet { add("--\(setting.name)") }
            } else if valued.contains(setting.name), !refused.contains(setting.name) {
                add("--\(setting.name)=\(setting.value)")
            } else {
                let near = Suggestion.nearest(to: setting.name, among: Array(valued.subtracting(refused).union(flags)))
                throw refusal(
                    "\"\(setting.name)\" is not an option with a default\(near.map { ". Did you mean \($0)?" } ?? "")")
            }
        }
        return ["get"] + defaults + words.dropFirst()
    }
}
