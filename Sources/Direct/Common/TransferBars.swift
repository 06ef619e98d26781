import HaulActivities
import HaulContract
import HaulTerminal

/// The bars of running downloads, and a line for all of them together.
enum TransferBars {
    struct Totals {
        var done = 0
        var failed = 0
        var all = 0
        /// The bytes of all downloads that have ended.
        var doneBytes: Int64 = 0
    }

    /// At most `height` lines of at most `width` columns.
    static func lines(_ views: [TransferView], _ totals: Totals, width: Int, height: Int) -> [String] {
        let available = width - 1
        let maxLines = max(1, height - 2)
        let busy = views.filter { if case .waiting = $0.phase { false } else { true } }
        let waiting = views.filter { if case .waiting(let why) = $0.phase { why != "queued" } else { false } }
        let shown = (busy + waiting).prefix(totals.all > 1 ? maxLines : maxLines + 1)
        var lines = shown.map { bar($0, width: available) }
        guard totals.all > 1 else { return lines }
        lines.append(total(views, totals, hidden: busy.count + waiting.count - shown.count).shortened(to: available))
        return lines
    }

    static func bar(_ view: TransferView, width: Int) -> String {
        let progress = view.progress
        var row = ProgressRow(view.name)
        (row.received, row.total, row.speed) = (progress.received, progress.total, progress.speed)
        row.eta = progress.eta
        row.note = note(view)
        return row.text(width: width)
    }

    /// What a run does while no bytes arrive; nil while they do.
    private static func note(_ view: TransferView) -> String? {
        let progress = view.progress
        switch view.phase {
        case .waiting(let why): return why
        case .retrying(let timestamp, let why):
            let seconds = max(0, (timestamp - .now).secondsValue)
            return "\(why), again in \(Units.duration(Int64(seconds.rounded(.up))))"
        case .running: break
        }
        if view.isHeld { return "waits: its host has as many connections as allowed" }
        if progress.connections == 0, progress.received == 0 { return "\(ProgressRow.spinner(at: .now)) connecting" }
        if let total = progress.total, progress.received >= total { return view.ending }
        return nil
    }

    /// `3 of 40 done, 1 failed  1.2/5.0 GB  88.0 MB/s  1m20s left`
    private static func total(_ views: [TransferView], _ totals: Totals, hidden: Int) -> String {
        var facts = ["\(totals.done) of \(totals.all) done" + (totals.failed > 0 ? ", \(totals.failed) failed" : "")]
        let received = views.reduce(totals.doneBytes) { $0 + $1.progress.received }
        let speed = views.reduce(Int64(0)) { $0 + $1.progress.speed }
        // The size of a download that has not begun is not known.
        let isKnown = totals.done + totals.failed + views.count >= totals.all
        let sizes = views.map(\.progress.total)
        let whole = isKnown && !sizes.contains(nil) ? sizes.reduce(totals.doneBytes) { $0 + ($1 ?? 0) } : nil
        facts.append(Units.amount(received, of: whole))
        facts.append(Units.speed(speed))
        if let whole, speed > 0 { facts.append(Units.duration(max(0, whole - received) / speed) + " left") }
        if hidden > 0 { facts.append("and \(hidden) more at work") }
        return facts.joined(separator: "  ")
    }
}
