import Glibc
import HaulActivities
import HaulContract
import HaulExecutors
import HaulTerminal
import Synchronization

/// Prints what happens: bars on a terminal, a line for each file elsewhere, or JSON for programs.
///
/// A thread of its own writes the output, so a slow reader does not block the downloads.
final class TransferReporter: Sendable {
    enum Form: Sendable {
        case bars, lines, json, quiet
    }

    private struct State {
        var screen = TransferScreen()
        /// What waits to be written.
        var waiting: [WriteOut.Piece] = []
        /// The downloads whose first retry was printed. A row or the end reports the others.
        var retried: Set<String> = []
        /// When the last line about the progress was printed.
        var lastLine: ContinuousClock.Instant?
    }

    let form: Form
    let isVerbose: Bool
    /// The file itself goes to standard output, so messages go to standard error.
    private let isOutputTaken: Bool
    private let progress: ProgressDestination
    /// Whether the bars are on standard error.
    private var drawsOnError: Bool { isOutputTaken || progress == .error }
    private let here: String
    private let state = Mutex(State())
    private let output = BlockingPool(name: "output", limit: 1)
    private static let maxPending = 1000

    /// Columns and rows.
    var size: (width: Int, height: Int) { Terminal.size }

    init(form: Form, progress: ProgressDestination, isVerbose: Bool, isOutputTaken: Bool, here: String) {
        (self.form, self.progress, self.isVerbose) = (form, progress, isVerbose)
        (self.isOutputTaken, self.here) = (isOutputTaken, here)
    }

    /// Whether the progress is shown.
    var showsProgress: Bool { progress != .nowhere }

    // MARK: Messages

    /// A notice for a person. It is left out with `--json` and `--quiet`.
    func record(_ text: String) {
        if form == .bars || form == .lines { printError("haul: \(text)") }
    }

    /// A decision, for `--verbose`.
    func decision(_ item: GetItem, _ text: String) { printError("* \(item.label): \(text)") }

    /// Prints decisions about the transfer with this label; nil without `--verbose`.
    func trace(of label: String) -> (@Sendable (String) -> Void)? {
        guard isVerbose else { return nil }
        return { self.printError("* \(label): \($0)") }
    }

    /// A line on standard error, whatever the form of the output is.
    func printError(_ text: String) {
        write([(text: text.printable + "\n", isError: true)])
    }

    func report(_ run: GetRun, _ event: ActivityEvent) {
        if form == .json {
            var object = Self.event(event.name, run.item)
            event.write(to: &object)
            line(object.text)
        }
        switch event {
        case .warning(let text): record("\(run.item.label): \(text)")
        case .restarted(let why): record("\(run.item.label): restarts: \(why)")
        case .resumed(let offset, let total):
            let whole = total.map { " of " + Units.bytes($0) } ?? ""
            record("\(run.item.label): continues at \(Units.bytes(offset))\(whole)")
        case .started: break
        }
    }

    func retrying(_ run: GetRun, _ failure: Failure, after delay: Duration, attempt: Int, of retries: Int) {
        if form == .json {
            var object = Self.event("retrying", run.item)
            object.set("error", failure.code.rawValue)
            object.set("message", failure.message)
            object.set("delay", delay.secondsValue)
            line(object.text)
        }
        // One line for each download: five retries would scroll the terminal by ten lines.
        guard state.withLock({ $0.retried.insert(run.item.key).inserted }) || isVerbose else { return }
        let count = attempt > 0 ? " (\(attempt) of \(retries))" : ""
        record("\(run.item.label): \(failure.message); again in \(Units.duration(delay.secondsValue))\(count)")
    }

    func progress(_ run: GetRun, _ progress: ActivityProgress) {
        guard progress.connections > 0 || progress.received > 0 else { return }
        guard form == .json, state.withLock({ $0.waiting.count }) < Self.maxPending else { return }
        var object = Self.event("progress", run.item)
        progress.write(to: &object)
        line(object.text)
    }

    func finished(_ run: GetRun, _ result: GetResult) {
        if form == .json { return line(Self.ended(run.item, result).text) }
        // With `-o -` the command prints a summary of its own.
        if isOutputTaken, !result.isFailed { return }
        if case .failed = result.end { return printError(GetTable.line(run.item, result, from: here)) }
        // With bars, the table at the end has the other downloads.
        if form == .lines { line(GetTable.line(run.item, result, from: here)) }
    }

    /// Removes the bars and prints the final table, if there are bars.
    func end(_ results: [(GetItem, GetResult)], seconds: Double) async {
        draw([])
        if form == .bars {
            for line in GetTable.lines(results, from: here, seconds: seconds, width: Terminal.size.width) {
                self.line(line)
            }
        }
        await flush()
    }

    func flush() async { await output.run {} }

    // MARK: Writing

    /// Replaces the bars.
    func draw(_ lines: [String]) {
        switch progress {
        case .nowhere: return
        case .lines: return printLast(of: lines)
        case .output, .error: break
        }
        let (drawsOnError, width) = (drawsOnError, size.width)
        submit { screen in
            screen.width = width
            return [(text: screen.draw(lines), isError: drawsOnError)]
        }
    }

    /// The time between two lines about the progress.
    private static let pace: Duration = .seconds(5)

    /// Prints the line about all downloads, or about the only one, at times.
    private func printLast(of lines: [String]) {
        guard let last = lines.last else { return }
        let isDue = state.withLock { state in
            let now = ContinuousClock.now
            guard state.lastLine.map({ now - $0 >= Self.pace }) ?? true else { return false }
            defer { state.lastLine = now }
            // The first line would only say that nothing has come yet.
            return state.lastLine != nil
        }
        if isDue { printError(last) }
    }

    /// A line of output that stays.
    func line(_ text: String) { write([(text: text + "\n", isError: isOutputTaken)]) }

    /// Writes texts that stay as they are, because programs read them.
    func write(_ pieces: [WriteOut.Piece]) {
        let drawsOnError = drawsOnError
        submit { screen in
            let (before, after) = (screen.clear(), screen.redraw())
            return [(text: before, isError: drawsOnError)] + pieces
                + [(text: after, isError: drawsOnError)]
        }
    }

    /// The screen makes its texts under the lock, and the lock also determines their position in the queue. So texts are
    /// written in the order in which they were made.
    private func submit(_ body: (inout TransferScreen) -> [WriteOut.Piece]) {
        let isFirst = state.withLock { state in
            let pieces = body(&state.screen).filter { !$0.text.isEmpty }
            defer { state.waiting += pieces }
            return state.waiting.isEmpty && !pieces.isEmpty
        }
        if isFirst { output.submit { self.writeWaiting() } }
    }

    /// Writes all that waits, with one call for adjacent texts of the same stream. Blocks.
    private func writeWaiting() {
        let pieces = state.withLock { exchange(&$0.waiting, with: []) }
        var (text, isError) = ("", false)
        for piece in pieces {
            if piece.isError != isError {
                Self.write(text, isError)
                (text, isError) = ("", piece.isError)
            }
            text += piece.text
        }
        Self.write(text, isError)
    }

    private static func write(_ text: String, _ isError: Bool) {
        guard !text.isEmpty else { return }
        if isError { Terminal.prompt(text) } else { Terminal.write(text) }
    }

    // MARK: JSON

    private static func event(_ name: String, _ item: GetItem) -> JSONObject {
        var object = JSONObject()
        object.set("event", name)
        object.set("id", String(item.key.prefix(16)))
        object.set("at", UnixTime.milliseconds)
        object.set("url", item.job.urls.first.map(MaskedURL.keepingQuery))
        return object
    }

    /// The last event of a download as a line of JSON.
    static func endEvent(_ item: GetItem, _ result: GetResult) -> String { ended(item, result).text }

    private static func ended(_ item: GetItem, _ result: GetResult) -> JSONObject {
        var object = event(result.word == "unchanged" ? "completed" : result.word, item)
        if let file = result.file { object.set("file", (item.root == "/" ? "" : item.root) + "/" + file) }
        object.set("bytes", result.bytes)
        switch result.end {
        case .completed, .unchanged:
            object.set("seconds", result.seconds)
            object.set("speed", result.speed)
            object.set("etag", result.etag)
        case .skipped, .metalink, .failed, .stopped: break
        }
        object.set("checksum", result.checksum)
        if !result.verified.isEmpty { object.set("verified", result.verified) }
        if case .unchanged = result.end { object.set("unchanged", true) }
        if case .failed(let failure) = result.end {
            object.set("error", failure.code.rawValue)
            object.set("message", failure.message)
            object.set("retryable", RetryPolicy.isRetryable(failure))
            object.set("received", result.received)
        }
        return object
    }
}
