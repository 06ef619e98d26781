import HaulBus
import HaulContract
import HaulTerminal

/// A job as it is printed: text for people, JSON for programs.
struct JobView {
    let record: JobRecord

    /// One line.
    var line: String {
        var parts = [record.id, record.state.rawValue]
        let received = record.integer("received") ?? 0
        if let total = record.integer("total") {
            parts.append("\(Units.bytes(received)) of \(Units.bytes(total))")
        } else if received > 0 {
            parts.append(Units.bytes(received))
        }
        if record.state == .running, let speed = record.integer("speed") { parts.append(Units.speed(speed)) }
        if let waiting = record["waiting"] { parts.append("waiting: \(waiting)") }
        parts.append(record["file"] ?? record["url"] ?? "")
        if let error = record["error"] { parts.append("\(error): \(record["message"] ?? "")") }
        return parts.joined(separator: "  ").printable
    }

    private var shown: [String: String] {
        record.fields.filter { !JobRecord.hidden.contains($0.key) && !$0.value.isEmpty }
    }

    /// All fields, each on a line.
    var text: String {
        let fields = record.fields.filter { !$0.value.isEmpty }
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

    /// Fields that are numbers or other JSON. `inode` and `mtime` stay strings: many JSON readers lose digits of
    /// numbers this large.
    private static let raw: Set<String> = [
        "received", "total", "speed", "attempt", "crashes", "created", "started", "updated", "finished", "seq", "epoch",
        "deadline_at", "settled_until", "validated", "response_dropped", "last_modified_strong", "meta",
    ]

    var json: String { json(of: shown) }

    /// Like `json`, without the header fields and the body of a response, which may hold secrets.
    var summary: String { json(of: shown.filter { !Self.ofResponse.contains($0.key) }) }

    private static let ofResponse: Set<String> = ["headers", "body", "body_base64"]

    private func json(of shown: [String: String]) -> String {
        var members = [("id", JSON.quoted(record.id))] + JSON.members(shown, raw: Self.raw)
        if !record.offsets.isEmpty {
            let pairs = record.offsets.intervals.map { (String($0.lowerBound), String($0.upperBound)) }
            members.append(("offsets", JSON.object(pairs)))
        }
        return JSON.object(members)
    }
}
