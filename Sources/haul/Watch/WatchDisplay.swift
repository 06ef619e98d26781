import HaulContract
import HaulTerminal

/// Shows many jobs in few lines. On a terminal the lines of ended jobs scroll by, and running jobs have rows at the
/// bottom, in the order in which they began. Elsewhere all of it is lines.
struct WatchDisplay {
    private let progress: ProgressDestination
    /// Whether rows are redrawn in place.
    private var hasRows: Bool { progress == .output || progress == .error }
    private let isUnicode = Columns.showsUnicode
    private var running = WatchedJobs()
    /// Lines that have not been written yet. Failures are the most important ones.
    private var news: [(line: String, isFailure: Bool)] = []
    private var counts: [String: Int] = [:]
    private var drawn = 0
    private var progressPrinted: ContinuousClock.Instant?

    /// The maximum number of lines per drawing. More lines are only counted, because no one could read them.
    private static let maxNews = 12
    /// The time between two lines about a job's progress, without a terminal.
    private static let pace: Duration = .seconds(10)
    private static let maxRows = 20

    init(_ progress: ProgressDestination, names: [String: String]) {
        self.progress = progress
        running.names = names
    }

    /// The time between two calls of `draw`.
    var interval: Duration { .milliseconds(hasRows ? 250 : 1000) }

    /// The next running jobs whose names or starts are not known yet.
    var unknown: [String] { running.unknown }

    /// Sets how many jobs run in the whole queue, if all jobs are followed.
    mutating func record(running count: Int) { running.count = count }

    /// Forgets which jobs run, but not their names.
    mutating func forgetRunning() { running.forgetRunning() }

    /// Records what the hash of a job says.
    mutating func describe(_ id: String, name: String, started: Int64?) {
        running.describe(id, name: name, started: started)
    }

    private var rows: Int { hasRows ? max(1, min(Self.maxRows, Terminal.size.height - 3)) : Self.maxRows }

    mutating func show(_ event: Event) {
        if event.name == "progress" { return running.record(event) }
        // The job's row shows that already.
        if progress == .output, event.name == "started" || event.name == "resumed" { return }
        let name = running.names[event.id].map { "  \($0)" } ?? ""
        let line = EventLine.text(event) + (event.name == "completed" ? "" : name.printable)
        if event.finalState != nil || ["paused", "requeued", "retrying"].contains(event.name) {
            count(event.name, line, id: event.id)
            if event.finalState != nil { running.names[event.id] = nil }
        } else {
            addLine(line, isFailure: event.name == "rejected")
        }
    }

    /// Shows the end of a job that no event has reported.
    mutating func end(_ line: String, id: String) { count("ended", line, id: id) }

    private mutating func count(_ name: String, _ line: String, id: String) {
        running.remove(id)
        counts[name, default: 0] += 1
        addLine(line, isFailure: name == "failed")
    }

    private mutating func addLine(_ line: String, isFailure: Bool) {
        // Standard output has all lines if it is a file or a pipe.
        guard progress == .output else { return Terminal.line(line) }
        news.append((line, isFailure))
    }

    mutating func draw() {
        switch progress {
        case .nowhere: return
        case .lines: return printProgress()
        case .output, .error: break
        }
        let width = Terminal.size.width
        let erasure = drawn == 0 ? "" : "\u{1B}[\(drawn)A\r\u{1B}[J"
        let lines =
            running.lines(rows: rows, width: width - 1, isUnicode: isUnicode) + [summary.truncated(to: width - 1)]
        write(erasure + (takeNews() + lines).map { $0 + "\n" }.joined())
        drawn = lines.count
    }

    mutating func finish() {
        guard hasRows else { return }
        let erasure = drawn == 0 ? "" : "\u{1B}[\(drawn)A\r\u{1B}[J"
        write(erasure + takeNews().map { $0 + "\n" }.joined())
        drawn = 0
    }

    private func write(_ text: String) { if progress == .error { Terminal.prompt(text) } else { Terminal.write(text) } }

    /// The lines since the last drawing. If there are too many, failures are preferred.
    private mutating func takeNews() -> [String] {
        defer { news = [] }
        guard news.count > Self.maxNews else { return news.map(\.line) }
        let failures = news.filter(\.isFailure)
        let shown = failures.isEmpty ? news.suffix(Self.maxNews - 1) : failures.suffix(Self.maxNews - 1)
        return shown.map(\.line) + ["… and \(news.count - shown.count) more lines"]
    }

    private var summary: String {
        var parts = [running.total]
        parts += counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
        return parts.joined(separator: ", ")
    }

    private mutating func printProgress() {
        let now = ContinuousClock.now
        guard !running.isEmpty, progressPrinted.map({ now - $0 >= Self.pace }) ?? true else { return }
        progressPrinted = now
        for job in running.shown(rows) { Terminal.printError(EventLine.text(job)) }
        if running.left(rows) > 0 { Terminal.printError("and \(running.left(rows)) more running: \(summary)") }
    }
}
