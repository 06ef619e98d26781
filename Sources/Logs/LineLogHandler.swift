import HaulContract
package import Logging

/// A log handler for swift-log that writes one line per event.
package struct LineLogHandler: LogHandler {
    private let format: LogFormat
    private let output: LogOutput
    package var logLevel = Logger.Level.info
    package var metadata: Logger.Metadata = [:]

    package init(_ format: LogFormat, to output: LogOutput) { (self.format, self.output) = (format, output) }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let all = event.metadata.map { metadata.merging($0) { $1 } } ?? metadata
        output.write(
            format.line(
                LogFormat.Entry(
                    time: Timestamp.text(UnixTime.milliseconds), level: event.level,
                    message: event.message.description, fields: LogFormat.sorted(all))))
    }
}
