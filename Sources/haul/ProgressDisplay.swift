import HaulContract

/// Progress of several jobs: bars that are drawn in place on a terminal, lines elsewhere.
struct ProgressDisplay {
    let isTerminal: Bool
    /// Of jobs whose failures are to be told with their URL.
    let urls: [String: String]
    /// Jobs with a bar, in the order they came.
    private var bars: [(id: String, text: Event)] = []
    private var drawn = 0

    init(isTerminal: Bool, urls: [String: String]) { (self.isTerminal, self.urls) = (isTerminal, urls) }

    mutating func show(_ event: Event) {
        let url = event["error"] == nil ? nil : urls[event.id].map { "  \($0)" }
        let line = Self.line(event) + (url ?? "")
        if event.name == "progress" {
            if let index = bars.firstIndex(where: { $0.id == event.id }) {
                bars[index].text = event
            } else {
                bars.append((event.id, event))
            }
            if isTerminal { redraw() } else { Terminal.line(line) }
        } else if event.finalState != nil || event.name == "paused" {
            end(line, id: event.id)
        } else {
            say(line)
        }
    }

    /// A job is done: its bar goes, a line stays.
    mutating func end(_ line: String, id: String) {
        bars.removeAll { $0.id == id }
        say(line)
    }

    mutating func finish() {
        bars = []
        if isTerminal { redraw() }
    }

    private mutating func say(_ line: String) {
        guard isTerminal else { return Terminal.line(line) }
        Terminal.write(erasure + line + "\n")
        drawn = 0
        redraw()
    }

    private var erasure: String { drawn == 0 ? "" : "\u{1B}[\(drawn)A\r\u{1B}[J" }

    private mutating func redraw() {
        // No more bars than rows: the cursor cannot go back to what has left the screen.
        let (width, height) = Terminal.size
        let lines = bars.suffix(min(20, height - 1)).map { Self.bar($0.text, width: width) }
        Terminal.write(erasure + lines.map { $0 + "\n" }.joined())
        drawn = lines.count
    }

    /// `id  42 % [=====>    ]  1.2 GiB  88.0 MiB/s  12s`, never wider than `width`.
    static func bar(_ event: Event, width: Int) -> String {
        let fraction = event["fraction"]?.double.map { min(max($0, 0), 1) }
        let percent = fraction.map { "\(Int($0 * 100)) %" } ?? "? %"
        var facts = [Units.bytes(event["received"]?.integer ?? 0), Units.speed(event["speed"]?.integer ?? 0)]
        if let eta = event["eta"]?.integer { facts.append(Units.duration(eta)) }
        let left =
            String(event.id.prefix(16)).padded(to: 16) + " " + String(repeating: " ", count: max(0, 5 - percent.count))
            + percent + " "
        let right = " " + facts.joined(separator: "  ")
        let room = width - left.count - right.count - 3
        guard room >= 5 else { return String("\(event.id.prefix(6)) \(percent)\(right)".prefix(max(0, width - 1))) }
        let full = Int(Double(room) * (fraction ?? 0))
        let head = full < room && full > 0 ? ">" : ""
        let bar = String(repeating: "=", count: max(0, full - head.count)) + head
        return left + "[" + bar.padded(to: room) + "]" + right
    }

    static func line(_ event: Event) -> String {
        var parts = [event.id, event.name]
        switch event.name {
        case "progress":
            parts.append(
                Units.bytes(event["received"]?.integer ?? 0)
                    + (event["total"]?.integer.map { " of " + Units.bytes($0) } ?? ""))
            parts.append(Units.speed(event["speed"]?.integer ?? 0))
            if let eta = event["eta"]?.integer { parts.append(Units.duration(eta) + " left") }
        case "completed":
            parts.append(event["file"]?.string ?? "")
            parts.append(Units.bytes(event["bytes"]?.integer ?? 0))
            if let checksum = event["checksum"]?.string { parts.append(checksum) }
            if event["unchanged"] != nil { parts.append("unchanged") }
        case "started":
            if let total = event["total"]?.integer { parts.append(Units.bytes(total)) }
        case "resumed":
            parts.append("at " + Units.bytes(event["offset"]?.integer ?? 0))
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
