import HaulBus
import HaulContract
import HaulTerminal

// The panels above the list of jobs, and the pages that are shown instead of it.

extension TopLayout {
    /// The panels side by side: failures, workers and, if there are several, queues. On a narrow screen the last one is
    /// omitted.
    var panels: [ScreenRow] {
        let hasQueues = model.data.queues.count > 1
        let count = (hasQueues ? 3 : 2) - (width < 60 ? 1 : 0)
        let panelWidth = (width - (count - 1) * 3) / count
        var columns = [failures(width: panelWidth), workers(width: panelWidth)]
        if hasQueues { columns.append(queues(width: panelWidth)) }
        columns = Array(columns.prefix(count))
        return (0..<panelHeight).map { line in
            var row = ScreenRow()
            for (index, column) in columns.enumerated() {
                if index > 0 { row.add(isUnicode ? " │ " : " | ", .dim) }
                row.add((line < column.count ? column[line] : ScreenRow()).fitted(to: panelWidth))
            }
            return row
        }
    }

    /// Lines of a table under a bold header, cut to the height of a panel.
    private func panel(_ lines: [String], _ style: (Int) -> Style) -> [ScreenRow] {
        lines.prefix(panelHeight).enumerated().map { index, line in
            ScreenRow(" " + line, index == 0 ? Style(color: .cyan, isBold: true) : style(index - 1))
        }
    }

    private func workers(width: Int) -> [ScreenRow] {
        var table = Table([
            .init(title: "WORKER", minWidth: 6, rank: 10, width: 8), .init(title: "STATE", rank: 9),
            .init(title: "RUN", isNumber: true, rank: 8), .init(title: "SLOTS", isNumber: true, rank: 7),
            .init(title: "SEEN", isNumber: true, rank: 8), .init(title: "HOST", minWidth: 6, rank: 2),
        ])
        let workers = model.data.workers
        let availableRows = panelHeight - 1
        let isCut = model.data.workerCount > availableRows
        for row in workers.prefix(isCut ? availableRows - 1 : availableRows) {
            table.add([
                row.name, row.state.rawValue, String(row.running), row.slots, Age.text(model.data.now - row.seen),
                row.host,
            ])
        }
        var rows = panel(table.lines(width: width - 1)) { workers[$0].isLost ? .bad : .plain }
        if workers.isEmpty { rows.append(ScreenRow(isLoaded ? " none" : "", .dim)) }
        if isCut {
            rows.append(ScreenRow(" and \(model.data.workerCount - availableRows + 1) more: haul workers", .dim))
        }
        return rows
    }

    private func failures(width: Int) -> [ScreenRow] {
        var groups = JobGroups(by: .error)
        for row in model.data.failures { groups.add(row) }
        let count = model.data.failures.count
        var table = Table([
            .init(title: isLoaded ? "LAST \(count) FAILURES" : "LAST FAILURES", minWidth: 10, rank: 10, width: 16),
            .init(title: "JOBS", isNumber: true, rank: 9), .init(title: "LAST", isNumber: true, rank: 8),
            .init(title: "HOST", minWidth: 8, rank: 5),
        ])
        let (sorted, availableRows) = (groups.sorted, panelHeight - 1)
        let isCut = sorted.count > availableRows
        let shown = sorted.prefix(isCut ? availableRows - 1 : availableRows)
        for (name, group) in shown {
            table.add([
                name.isEmpty ? "-" : name, String(group.count), group.newest.age(at: model.data.now), group.newest.host,
            ])
        }
        var rows = panel(table.lines(width: width - 1)) { _ in Style(color: .red) }
        if isCut { rows.append(ScreenRow(" and \(sorted.count - shown.count) more: haul stats --failures", .dim)) }
        if model.data.failures.isEmpty { rows.append(ScreenRow(isLoaded ? " none" : "", .dim)) }
        return rows
    }

    private func queues(width: Int) -> [ScreenRow] {
        var table = Table([
            .init(title: "QUEUE", minWidth: 6, rank: 10, width: 8), .init(title: "QUEUED", isNumber: true, rank: 9),
            .init(title: "RUN", isNumber: true, rank: 8), .init(title: "FAILED", isNumber: true, rank: 7),
            .init(title: "WORKERS", isNumber: true, rank: 6),
        ])
        for queue in model.data.queues {
            table.add([
                queue.name, Self.compact(queue.queued), Self.compact(queue.running), Self.compact(queue.failed),
                String(queue.workers),
            ])
        }
        return panel(table.lines(width: width - 1)) { index in
            model.data.queues[index].name == model.queue ? .bold : .plain
        }
    }

    /// The page of one job, with its events since the page was opened.
    var detail: [ScreenRow] {
        let availableRows = height - 4
        guard let detail = model.detail else { return [] }
        guard let record = detail.record else {
            return [ScreenRow(), ScreenRow(" \(detail.id)", .bold), ScreenRow(" no worker has seen it yet", .dim)]
        }
        let page = JobPage(record: record, now: model.data.now).lines(width: width - 1, isUnicode: isUnicode)
        var rows =
            [ScreenRow()]
            + page.enumerated().map { index, line in
                ScreenRow(" " + line, index == 0 ? .bold : line.hasPrefix("  [") ? .good : .plain)
            }
        // The events get the rows that remain below the job, with the newest at the end.
        rows = Array(rows.prefix(max(4, availableRows - 4)))
        rows += [ScreenRow(), ScreenRow(" EVENTS", Style(color: .cyan, isBold: true))]
        let events = detail.events.suffix(max(0, availableRows - rows.count))
        if events.isEmpty { rows.append(ScreenRow(" none since this page was opened", .dim)) }
        for event in events {
            var row = ScreenRow(" \(Age.date(event.at).dropFirst(11).prefix(8))  ", .dim)
            row.add(event.text)
            rows.append(row)
        }
        return rows
    }

    var help: [ScreenRow] {
        let keys = [
            ("up down, j k", "select a job"), ("page up, page down", "scroll by a screen"),
            ("home, end", "select the first or the last job"), ("enter", "show the job with its events"),
            ("tab, shift tab, 1 to 7", "show jobs of another state"),
            ("s S", "sort by the next or the previous column"),
            ("R", "reverse the order"), ("/", "filter by a text in the id, URL, file, worker or error"),
            ("space, a", "mark a job, mark all"),
            ("p r c t", "pause, resume, cancel or retry the marked jobs, or this one"),
            ("P", "pause or resume the queue"), ("Q", "show the next queue"), ("esc", "clear the filter and the marks"),
            ("ctrl L, ctrl Z, q", "redraw, suspend, quit"),
        ]
        let column = 2 + (keys.map(\.0.count).max() ?? 0)
        return [ScreenRow()]
            + keys.flatMap { key, what in
                // A long text is wrapped within its column.
                JobPage.wrapped(what, width: max(10, width - column - 2)).enumerated().map { index, words in
                    var row = ScreenRow(" " + (index == 0 ? key : "").padded(to: column), .bold)
                    row.add(words)
                    return row
                }
            }
    }
}
