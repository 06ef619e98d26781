import Logging

/// How a line of the log is written.
package enum LogFormat: String, Sendable, CaseIterable {
    /// `key=value`, for people and machines.
    case logfmt
    /// One object a line.
    case json

    /// What a line is made of.
    struct Entry {
        let time: String
        let level: Logger.Level
        let message: String
        /// In the order in which they are written.
        let fields: [(name: String, value: Logger.Metadata.Value)]
    }

    func line(_ entry: Entry) -> String {
        switch self {
        case .logfmt: Logfmt.line(entry)
        case .json: JSONLine.line(entry)
        }
    }

    /// These come first, in this order; all others follow by their names.
    private static let order = [
        "queue", "worker", "id", "attempt", "host", "file", "bytes", "seconds", "error", "reason",
    ]

    static func sorted(_ metadata: Logger.Metadata) -> [(name: String, value: Logger.Metadata.Value)] {
        func rank(_ name: String) -> Int { order.firstIndex(of: name) ?? order.count }
        return metadata.map { (name: $0.key, value: $0.value) }.sorted {
            (rank($0.name), $0.name) < (rank($1.name), $1.name)
        }
    }
}

extension Unicode.Scalar {
    /// Whether it would change how others are shown, or is not shown: a log is read in terminals.
    var isInvisible: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: return true
        default: return false
        }
    }

    /// `\u001b`, as JSON has it; scalars beyond 16 bits are two of them.
    var escaped: String {
        String(self).utf16.map { unit in
            let digits = String(unit, radix: 16)
            return "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
        }.joined()
    }
}
