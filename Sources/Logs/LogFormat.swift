import Logging

/// The format of the log's lines.
package enum LogFormat: String, Sendable, CaseIterable {
    /// `key=value`, for people and machines.
    case logfmt
    /// One JSON object per line.
    case json

    /// The parts of a line.
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

    /// These fields come first, in this order. All other fields follow, sorted by name.
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
    /// Whether a terminal shows nothing for the scalar, or shows other characters differently because of it (control
    /// characters and the like). A log must not contain such scalars, because it is read in terminals.
    var isInvisible: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned: return true
        default: return false
        }
    }
}
