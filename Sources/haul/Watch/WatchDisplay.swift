import HaulContract
import HaulTerminal

/// Many jobs in few lines: what ended scrolls by, what runs has a row at the bottom of a terminal, in the order in which it
/// came. Where no terminal is, it has lines.
struct WatchDisplay {
    let isTerminal: Bool
    private let isUnicode = Columns.showsUnicode
    private var running = WatchedJobs()
    /// Lines that have not been written, those of failures first in importance.
    private var news: [(line: String, isFailure: Bool)] = []
    private var counts: [String: Int] = [:]
    private var drawn = 0
    private var said: ContinuousClock.Instant?

    /// More lines than a reader can take in are counted instead.
    private static let mostNews = 12
    /// How often a job's progress has a line, where there is no terminal.
    private static let pace: Duration = .seconds(10)
    private static let mostRows = 20

    init(isTerminal: Bool, names: [String: String]) {
        self.isTerminal = isTerminal
        running.names = names
    }

    /// How often it wants to be drawn.
    var interval: Duration { .milliseconds(isTerminal ? 250 : 1000) }

    /// Jobs whose names would be shown if they were known.
    var unnamed: [String] { running.shown(rows).filter { running.names[$0.id] == nil }.map(\.id) }

    /// How many jobs run in the whole queue, where all of them are followed.
    mutating func note(running count: Int) { running.count = count }

    mutating func name(_ id: String, _ name: String) { running.names[id] = name }

    private var rows: Int { isTerminal ? max(1, min(Self.mostRows, Terminal.size.height - 3)) : Self.mostRows }

    mutating func show(_ event: Event) {
        if event.name == "progress" { return running.note(event) }
        // A row says it.
        if isTerminal, event.name == "started" || event.name == "resumed" { return }
        let name = running.names[event.id].map { "  \($0)" } ?? ""
        let line = EventLine.text(event) + (event.name == "completed" ? "" : name.printable)
        if event.finalState != nil || ["paused", "requeued", "retrying"].contains(event.name) {
            count(event.name, line, id: event.id)
        } else {
            say(line, isFailure: event.name == "rejected")
        }
    }

    /// A job has ended, which no event told; `line` says how.
    mutating func end(_ line: String, id: String) { count("ended", line, id: id) }

    private mutating func count(_ name: String, _ line: String, id: String) {
        running.remove(id)
        counts[name, default: 0] += 1
        say(line, isFailure: name == "failed")
    }

    private mutating func say(_ line: String, isFailure: Bool) {
        guard isTerminal else { return Terminal.line(line) }
        news.append((line, isFailure))
    }

    mutating func draw() {
        guard isTerminal else { return tellProgress() }
        let width = Terminal.size.width
        let erasure = drawn == 0 ? "" : "\u{1B}[\(drawn)A\r\u{1B}[J"
        let lines = running.lines(rows: rows, width: width - 1, isUnicode: isUnicode) + [summary.cut(to: width - 1)]
        Terminal.write(erasure + (takeNews() + lines).map { $0 + "\n" }.joined())
        drawn = lines.count
    }

    mutating func finish() {
        guard isTerminal else { return }
        let erasure = drawn == 0 ? "" : "\u{1B}[\(drawn)A\r\u{1B}[J"
        Terminal.write(erasure + takeNews().map { $0 + "\n" }.joined())
        drawn = 0
    }

    /// What happened since the last drawing: failures before anything else, where there is not room for all.
    private mutating func takeNews() -> [String] {
        defer { news = [] }
        guard news.count > Self.mostNews else { return news.map(\.line) }
        let failures = news.filter(\.isFailure)
        let shown = failures.isEmpty ? news.suffix(Self.mostNews - 1) : failures.suffix(Self.mostNews - 1)
        return shown.map(\.line) + ["… and \(news.count - shown.count) more lines"]
    }

    private var summary: String {
        var parts = [running.total]
        parts += counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
        return parts.joined(separator: ", ")
    }

    private mutating func tellProgress() {
        let now = ContinuousClock.now
        guard !running.isEmpty, said.map({ now - $0 >= Self.pace }) ?? true else { return }
        said = now
        for job in running.shown(rows) { Terminal.line(EventLine.text(job)) }
        if running.left(rows) > 0 { Terminal.line("and \(running.left(rows)) more running: \(summary)") }
    }
}
