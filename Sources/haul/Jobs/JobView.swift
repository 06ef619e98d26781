import HaulBus
import HaulContract
import HaulTerminal

/// A job as it is printed for people.
struct JobView {
    let record: JobRecord

    /// One line.
    var line: String {
        var parts = [record.id, record.state.rawValue]
        let received = record.integer("received") ?? 0
        if let total = record.integer("total") {
            parts.append(Units.amount(received, of: total))
        } else if received > 0 {
            parts.append(Units.bytes(received))
        }
        if record.state == .running, let speed = record.integer("speed") { parts.append(Units.speed(speed)) }
        if let waiting = record["waiting"] { parts.append("waiting: \(waiting)") }
        parts.append(record["file"] ?? record["url"] ?? "")
        if let error = record["error"] { parts.append("\(error): \(record["message"] ?? "")") }
        return parts.joined(separator: "  ").printable
    }

    /// All fields, each on a line, and when a scheduled job is due.
    var text: String {
        var fields = record.fields.filter { !$0.value.isEmpty }
        // The hash does not have it. `--json` and lists call it so.
        if let due = record.dueAt { fields["timestamp"] = "\(due)" }
        let width = (fields.keys.map(\.count).max() ?? 0) + 2
        var lines = ["id".padded(to: width) + record.id]
        lines += fields.sorted { $0.key < $1.key }.map { ($0.key.padded(to: width) + $0.value).printable }
        if !record.offsets.isEmpty {
            lines.append(
                "offsets".padded(to: width)
                    + record.offsets.intervals.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: " "))
        }
        return lines.joined(separator: "\n")
    }
}
