import Logging

/// A worker's warnings as the sentences of a command, for `haul get`.
struct ComplaintHandler: LogHandler {
    var logLevel = Logger.Level.warning
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let facts = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
        let details = facts.isEmpty ? "" : " (\(facts.joined(separator: ", ")))"
        Terminal.complain("haul: \(event.message)\(details)".printable)
    }
}
