import HaulContract
import HaulTerminal

/// An event as a line for people.
enum EventLine {
    static func text(_ event: Event) -> String {
        var parts = [event.id, event.name]
        switch event.name {
        case "progress":
            parts.append(
                Units.amount(event["received"]?.integer ?? 0, of: event["total"]?.integer))
            parts.append(Units.speed(event["speed"]?.integer ?? 0))
            if let eta = event["eta"]?.integer { parts.append(Units.duration(eta) + " left") }
        case "completed":
            parts.append(event["status"]?.integer.map { "HTTP \($0)" } ?? event["file"]?.string ?? "")
            parts.append(Units.bytes(event["bytes"]?.integer ?? 0))
            if let checksum = event["checksum"]?.string { parts.append(checksum) }
            if event["unchanged"] != nil { parts.append("unchanged") }
        case "started":
            if let total = event["total"]?.integer { parts.append(Units.bytes(total)) }
        case "resumed":
            parts.append("at " + Units.bytes(event["offset"]?.integer ?? 0))
        case "batch_ended":
            for state in ["completed", "failed", "cancelled", "rejected"] {
                if let count = event[state]?.integer, count > 0 { parts.append("\(count) \(state)") }
            }
        default:
            if let delay = event["delay"]?.double, let seconds = Int64(exactly: delay.rounded(.up)) {
                parts.append("again in \(Units.duration(seconds))")
            }
            for name in ["why", "error", "message", "reason", "state"] {
                if let text = event[name]?.string { parts.append(text) }
            }
        }
        if let worker = event.worker, event.name == "started" || event.name == "resumed" {
            parts.append("on \(worker)")
        }
        return parts.joined(separator: "  ").printable
    }
}
