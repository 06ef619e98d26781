import HaulContract
import HaulDirect
import HaulTerminal

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

    /// Adds the defaults before the words of the command line, which win because they come later.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    static func complete(_ words: [String]) throws -> [String] {
        guard words.first == "get", !words.contains("--no-config"), !words.contains("--help") else { return words }
        let named = words.firstIndex(of: "--config").flatMap { $0 + 1 < words.count ? words[$0 + 1] : nil }
        let joined = words.first { $0.hasPrefix("--config=") }.map { String($0.dropFirst(9)) }
        guard let file = try GetConfiguration(named: named ?? joined) else { return words }
        var defaults: [String] = []
        for setting in file.settings {
            func refusal(_ sentence: String) -> ExitStatus {
                .printing(.usage, "\(file.path):\(setting.line): \(sentence)")
            }
            let valued = ForeignArguments.longValued[.get] ?? []
            if flags.contains(setting.name) {
                guard let isSet = ["true": true, "false": false][setting.value] else {
                    throw refusal("\(setting.name) must be true or false, not \"\(setting.value)\"")
                }
                if isSet { defaults.append("--\(setting.name)") }
            } else if valued.contains(setting.name), !refused.contains(setting.name) {
                defaults.append("--\(setting.name)=\(setting.value)")
            } else {
                let near = Suggestion.nearest(to: setting.name, among: Array(valued.subtracting(refused).union(flags)))
                throw refusal(
                    "\"\(setting.name)\" is not an option with a default\(near.map { ". Did you mean \($0)?" } ?? "")")
            }
        }
        return ["get"] + defaults + words.dropFirst()
    }
}
