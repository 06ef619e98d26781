import HaulBus
import HaulContract
import HaulTerminal

/// Makes the rows of `haul top`, only from a model and a size.
struct TopLayout {
    let model: TopModel
    let width: Int
    let height: Int
    var isUnicode = true

    /// Too small to show anything.
    private var isTiny: Bool { width < 24 || height < 6 }

    /// The height of the panels, with their headers; 0 on a small screen.
    var panelHeight: Int { height >= 40 ? 9 : height >= 24 ? 5 : height >= 18 ? 4 : 0 }

    /// The number of rows for jobs.
    var listHeight: Int { max(0, height - headHeight - (panelHeight > 0 ? panelHeight + 1 : 0) - 2) }

    private var headHeight: Int { 3 }

    /// Exactly `height` rows of exactly `width` columns.
    var rows: [ScreenRow] {
        if isTiny { return fill([ScreenRow("haul top: \(width)x\(height) is too small")]) }
        var rows = [title, rates, counts]
        switch model.mode {
        case .help: rows += help
        case .detail: rows += detail
        case .question where model.before == .detail: rows += detail
        default:
            if panelHeight > 0 { rows += panels + [ScreenRow()] }
            rows += list
        }
        return fill(rows)
    }

    /// Fills the screen. The last row is always the foot: keys, a question or a notice.
    private func fill(_ rows: [ScreenRow]) -> [ScreenRow] {
        let foot = isTiny ? [] : [foot]
        var rows = Array(rows.prefix(height - foot.count))
        rows += Array(repeating: ScreenRow(), count: height - foot.count - rows.count)
        return (rows + foot).map { $0.fitted(to: width) }
    }

    // MARK: Head

    /// Redis has answered at least once. Before that no counts are known, and `-` is shown.
    var isLoaded: Bool { model.data.now > 0 }

    private var title: ScreenRow {
        var row = ScreenRow(" haul top ", .title)
        row.add(model.queue, .bold)
        if let message = model.errorMessage {
            row.add("  \(message)", .bad)
            return row
        }
        guard isLoaded else {
            row.add("  reading", .dim)
            return row
        }
        let alive = model.data.workerCount - model.data.lostCount
        row.add(alive == 1 ? "  1 worker" : "  \(alive) workers", alive == 0 ? .bad : .plain)
        if model.data.lostCount > 0 { row.add(", \(model.data.lostCount) lost", .bad) }
        let author = model.data.pausedBy.map { " by \($0)".truncated(to: 40) } ?? ""
        if model.data.isPaused { row.add("  PAUSED\(model.data.scopeOfPause)\(author)", .warning) }
        if let most = model.data.maxRunning { row.add("  at most \(most) at once", .warning) }
        if alive == 0 { row.add("  no worker serves this queue", .bad) }
        let time = String(Age.date(model.data.now).dropFirst(11)) + " "
        guard width - row.columns > time.count else { return row }
        row.add(String.spaces(width - row.columns - time.count))
        row.add(time, .dim)
        return row
    }

    private var rates: ScreenRow {
        let half = width / 2
        var left = ScreenRow(" ")
        let speed = isLoaded ? Units.speed(Int64(min(model.data.bytesPerSecond, 1e18))) : "-"
        left.add((model.data.isEstimated ? "~" : "") + speed.aligned(to: 11) + " ", .bold)
        left.add(spark(model.bytes, half - left.columns - 1), .good)
        let rate = isLoaded ? Self.rate(model.data.jobsPerSecond) : "-"
        var right = ScreenRow(" " + rate.aligned(to: 6) + " jobs/s ", .bold)
        right.add(spark(model.jobs, width - half - right.columns - 1), Style(color: .blue))
        var row = left.fitted(to: half)
        row.add(right)
        return row
    }

    private func spark(_ values: [Double], _ width: Int) -> String {
        Sparkline.text(values, width: max(0, width), isUnicode: isUnicode)
    }

    static func rate(_ value: Double) -> String {
        if value >= 100 { return String(Int(value)) }
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }

    /// `1234`, `12.3k`, `4.5M`.
    static func compact(_ count: Int) -> String {
        if count < 10_000 { return String(count) }
        return count < 1_000_000 ? rate(Double(count) / 1000) + "k" : rate(Double(count) / 1_000_000) + "M"
    }

    /// The number of jobs in each state. The state of the list is marked.
    private var counts: ScreenRow {
        func row(_ names: (JobState) -> String, _ gap: String) -> ScreenRow {
            var row = ScreenRow(" ")
            for state in TopModel.views {
                let count = isLoaded ? Self.compact(model.data.counts[state] ?? 0) : "-"
                let text = "\(names(state)) \(count)"
                row.add(state == model.view ? "[\(text)]" : " \(text) ", style(of: state))
                row.add(gap)
            }
            if model.data.rejected > 0 { row.add("rejected \(Self.compact(model.data.rejected))", .warning) }
            return row
        }
        let words: [JobState: String] = [
            .queued: "que", .scheduled: "sch", .running: "run", .paused: "pau", .failed: "fai", .completed: "don",
            .cancelled: "can",
        ]
        let short: [JobState: String] = [.completed: "done", .scheduled: "sched", .cancelled: "canc"]
        let long = row({ $0.rawValue }, " ")
        let middle = row({ short[$0] ?? $0.rawValue }, "")
        return [long, middle].first { $0.columns <= width } ?? row({ words[$0] ?? "" }, "")
    }

    private func style(of state: JobState) -> Style {
        var style = state == .failed && model.data.counts[.failed] ?? 0 > 0 ? Style(color: .red) : Style.plain
        style.isBold = state == model.view
        return style
    }

    // MARK: Jobs

    private var list: [ScreenRow] {
        var table = Table(columns)
        let shown = model.rows.dropFirst(model.top).prefix(listHeight)
        for row in shown { table.add(cells(of: row)) }
        let lines = table.lines(width: width - 1)
        var rows = [ScreenRow(" " + (lines.first ?? ""), Style(color: .cyan, isBold: true))]
        for (row, line) in zip(shown, lines.dropFirst()) {
            let text = ScreenRow(
                (model.marked.contains(row.id) ? "*" : " ") + line, row.error.isEmpty ? .plain : .warning)
            rows.append(row.id == model.selected ? text.fitted(to: width).highlighted() : text)
        }
        if shown.isEmpty { rows.append(ScreenRow(" " + nothing, .dim)) }
        return rows
    }

    private var nothing: String {
        if !model.filter.isEmpty { return "no job matches \"\(model.filter)\"" }
        guard isLoaded else { return "reading" }
        let other = model.data.counts[.queued] ?? 0
        let hint = model.view == .running && other > 0 ? "; \(other) are waiting" : ""
        return "nothing is \(model.view.rawValue)\(hint)"
    }

    private var columns: [Table.Column] {
        let name = Table.Column(title: "FILE OR URL", minWidth: 12, keepsEnd: true, rank: 11, width: 12)
        let id = Table.Column(title: "ID", minWidth: 8, rank: 8, width: 8)
        let age = Table.Column(title: "AGE", isNumber: true, rank: 7, width: 4)
        guard model.view == .running else {
            return [
                id, .init(title: "DONE", isNumber: true, rank: 4),
                .init(title: "SIZE", isNumber: true, rank: 5, width: 9), age,
                .init(title: "TRY", isNumber: true, rank: 3),
                .init(title: "WHY", minWidth: 24, rank: 9), name, .init(title: "MESSAGE", minWidth: 20, rank: 2),
            ]
        }
        return [
            id, .init(title: "DONE", isNumber: true, rank: 9, width: 4),
            .init(title: "", rank: 1, width: width >= 120 ? 16 : 0),
            .init(title: "SIZE", isNumber: true, rank: 5, width: 9),
            .init(title: "SPEED", isNumber: true, rank: 10, width: 11),
            .init(title: "ETA", isNumber: true, rank: 6, width: 6), age,
            .init(title: "WORKER", minWidth: 6, rank: 4, width: 6), .init(title: "WAITS", rank: 8), name,
        ]
    }

    private func cells(of row: JobRow) -> [String] {
        let age = row.age(at: model.data.now)
        guard model.view == .running else {
            let size = row.total.map(Units.bytes) ?? (row.received > 0 ? Units.bytes(row.received) : "")
            return [
                row.id, model.view == .completed ? "" : row.percent, size, age,
                row.attempt > 0 ? String(row.attempt) : "", row.reason, row.name, row.message,
            ]
        }
        var have = ByteIntervals()
        if row.received > 0 { have.insert(0..<row.received) }
        let bar = row.total.map { IntervalBar(have, total: $0).text(width: 16, isUnicode: isUnicode) } ?? ""
        return [
            row.id, row.percent.isEmpty ? Units.bytes(row.received) : row.percent, width >= 120 ? bar : "",
            row.total.map(Units.bytes) ?? "", Units.speed(row.speed), row.eta.map(Units.duration) ?? "", age,
            row.worker,
            row.waiting, row.name,
        ]
    }

    // MARK: Foot

    private var foot: ScreenRow {
        switch model.mode {
        case .question(let question): return ScreenRow(" \(question.text) y/n ", .reversed)
        case .filtering: return ScreenRow(" /\(model.filter)_  enter keeps it, esc drops it", .bold)
        case .help: return ScreenRow(" any key goes back", .dim)
        default: break
        }
        if let notice = model.notice { return ScreenRow(" \(notice)", .bold) }
        if model.mode == .detail {
            return keys([("esc", "back"), ("p", "pause"), ("r", "resume"), ("c", "cancel"), ("t", "retry")])
        }
        let scrollPosition = scrollPosition
        var row = keys([
            ("q", "quit"), ("?", "keys"), ("tab", "state"), ("s", "sort:\(model.order.rawValue)"), ("/", "filter"),
            ("enter", "detail"), ("p", "pause"), ("r", "resume"), ("c", "cancel"), ("t", "retry"),
        ]).fitted(to: max(0, width - Columns.of(scrollPosition) - 2))
        row.add(" \(scrollPosition)", .bold)
        return row
    }

    /// Which rows are on the screen, and how many there are.
    private var scrollPosition: String {
        let filter = model.filter.isEmpty ? "" : "/\(model.filter.printable.truncated(to: 20)) "
        guard !model.rows.isEmpty else { return filter }
        let last = min(model.rows.count, model.top + listHeight)
        let all = model.data.counts[model.view] ?? 0
        let of = model.rows.count < all ? "\(model.rows.count) of \(all)" : "\(model.rows.count)"
        return "\(filter)\(model.top + 1)-\(last) of \(of)"
    }

    private func keys(_ list: [(String, String)]) -> ScreenRow {
        var row = ScreenRow()
        for (key, what) in list {
            row.add(" \(key)", .bold)
            row.add(" \(what) ", .dim)
        }
        return row
    }
}
