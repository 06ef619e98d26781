import HaulTerminal

/// The messages of the argument parser in the form that all messages of the command have: "haul: ", the cause, and the
/// way out.
enum UsageError {
    /// - Parameter message: The parser's text: the cause, perhaps help about an argument, and the usage.
    static func message(_ message: String) -> String {
        var lines = message.split(separator: "\n").map(String.init)
        guard !lines.isEmpty else { return "haul: \(message)" }
        var cause = lines.removeFirst()
        if cause.hasPrefix("Error: ") { cause.removeFirst("Error: ".count) }
        if cause.hasSuffix(".") { cause.removeLast() }
        // Names of options and words in capitals keep their case.
        let first = cause.prefix { $0 != " " }
        if first.dropFirst().allSatisfy(\.isLowercase) { cause = cause.prefix(1).lowercased() + cause.dropFirst() }
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
}
