import Glibc
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

/// Times in the format of RFC 3339, in UTC.
package enum Timestamp {
    /// `2026-11-22T13:45:01.123Z`
    package static func text(_ unixMilliseconds: Int64) -> String {
        var seconds = time_t(unixMilliseconds / 1000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        let day = "\(1900 + Int(parts.tm_year))-\(two(1 + parts.tm_mon))-\(two(parts.tm_mday))"
        let milliseconds = unixMilliseconds % 1000
        return "\(day)T\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
            + ".\(milliseconds < 100 ? "0" : "")\(milliseconds < 10 ? "0" : "")\(milliseconds)Z"
    }

    private static func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
