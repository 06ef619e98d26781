import HaulTestSupport
import Logging

/// A log handler that shows a test the warnings, each with its reason if it has one.
struct Warnings: LogHandler {
    private let logged: Shared<[String]>
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.warning

    static func log(to logged: Shared<[String]>) -> Logger {
        Logger(label: "test", factory: { _ in Warnings(logged: logged) })
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let reason = event.metadata?["reason"].map { ": \($0)" } ?? ""
        logged.change { $0.append("\(event.message)\(reason)") }
    }
}
