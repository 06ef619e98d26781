import Logging
import Synchronization

/// What a client has logged, with the metadata of each line.
final class LogLines: Sendable {
    private let state = Mutex<[String]>([])

    var lines: [String] { state.withLock { $0 } }

    var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let all = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
            let text =
                "\(event.level) \(event.message) " + all.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
            lines.state.withLock { $0.append(text) }
        }
    }
}
