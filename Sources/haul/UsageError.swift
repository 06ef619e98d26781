import HaulTerminal

/// The messages of the argument parser in the form that all messages of the command have: "haul: ", the cause, and the
/// way out.
enum UsageError {
    /// - Parameters:
    ///   - message: The parser's text: the cause, perhaps help about an argument, and the usage.
    ///   - words: The words of the command line.
    static func message(_ message: String, words: some Sequence<String>) -> String {
        var lines = message.split(separator: "\n").map(String.init)
        guard !lines.isEmpty else { return "haul: \(message)" }
        var cause = lines.removeFirst()
        if cause.hasPrefix("Error: ") { cause.removeFirst("Error: ".count) }
        if cause.hasSuffix(".") { cause.removeLast() }
        // Names of options and words in capitals keep their case.
        let first = cause.prefix { $0 != " " }
        if first.dropFirst().allSatisfy(\.isLowercase) { cause = cause.prefix(1).lowercased() + cause.dropFirst() }
        if let option = unknownOption(in: cause) {
            let hint = hint(for: option, in: words.first { !$0.hasPrefix("-") } ?? "")
            return "haul: \(cause)\(hint.map { ": \($0)" } ?? help(lines))"
        }
        // A sentence of ours names the way out. The parser's own names only the cause.
        if cause.contains(": ") || cause.hasSuffix("?") { return "haul: \(cause)" }
        let isMissing = cause.hasPrefix("missing expected argument")
        let usage = isMissing ? lines.first { $0.hasPrefix("Usage: ") }.map { "\n" + $0 } ?? "" : ""
        return "haul: \(cause)\(help(lines))\(usage)"
    }

    /// "; see haul get --help", from the parser's last line.
    private static func help(_ lines: [String]) -> String {
        guard let quoted = lines.last?.split(separator: "'"), quoted.count > 1 else { return "" }
        return "; see \(quoted[1])"
    }

    private static func unknownOption(in cause: String) -> String? {
        guard cause.hasPrefix("unknown option '"), !cause.contains("Did you mean") else { return nil }
        return cause.split(separator: "'").dropFirst().first.map(String.init)
    }

    /// What to write instead of an option of curl, wget or aria2 that a command does not have.
    private static func hint(for option: String, in command: String) -> String? {
        switch (command, option) {
        case ("get", "-L"), ("get", "--location"), ("call", "-L"), ("call", "--location"):
            "redirects are always followed, so leave it out"
        case ("get", "-O"), ("get", "--remote-name"):
            "a file gets the server's name unless -o gives another, so leave it out"
        case ("get", "-C"), ("get", "-c"): "an unfinished file is always continued, so leave it out"
        case ("get", "-f"), ("get", "--fail"), ("call", "-f"), ("call", "--fail"):
            "an HTTP error always ends with status 1, so leave it out"
        case ("get", "-s"), ("get", "--silent"): "use -q"
        case ("get", "-P"), ("get", "--directory-prefix"), ("get", "--output-dir"): "use -d DIRECTORY"
        case ("get", "--retry"), ("get", "--tries"), ("get", "-t"): "use --retries"
        case ("get", "-m"), ("get", "--max-time"): "use --timeout, the seconds without a byte"
        case ("get", "-T"), ("get", "--upload-file"): "use haul put"
        case ("get", "-X"), ("get", "--data"), ("get", "--request"): "use haul call, which sends any HTTP request"
        case ("get", "-e"), ("get", "--referer"): "use -H \"Referer: URL\""
        default: nil
        }
    }
}
