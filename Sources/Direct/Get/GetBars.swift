import HaulActivities
import HaulContract
import HaulTerminal

/// The bars of running downloads, and a line for all of them together.
enum GetBars {
    struct Totals {
        var done = 0
        var failed = 0
        var all = 0
        /// The bytes of all downloads that have ended.
        var doneBytes: Int64 = 0
    }

    /// At most `height` lines of at most `width` columns.
    static func lines(_ views: [GetRun.View], _ totals: Totals, width: Int, height: Int) -> [String] {
        let available = width - 1
        let most = max(1, height - 2)
        let busy = views.filter { if case .waiting = $0.phase { false } else { true } }
        let waiting = views.filter { if case .waiting(let why) = $0.phase { why != "queued" } else { false } }
        let shown = (busy + waiting).prefix(totals.all > 1 ? most : most + 1)
        let longest = shown.map { Columns.of($0.name.printable) }.max() ?? 0
        let column = min(longest, max(8, available * 2 / 5))
        var lines = shown.map { bar($0, column: column, width: available) }
        guard totals.all > 1 else { return lines }
        lines.append(total(views, totals, hidden: busy.count + waiting.count - shown.count).shortened(to: available))
        return lines
    }

    /// `name  42% [====>     ] 1.2 of 2.9 GiB  88.0 MiB/s  12s`
    static func bar(_ view: GetRun.View, column: Int, width: Int) -> String {
        let name = view.name.printable.shortened(to: column).padded(to: column)
        let progress = view.progress
        let fraction = progress.total.flatMap { $0 > 0 ? min(1, Double(progress.received) / Double($0)) : nil }
        let percent = (fraction.map { "\(Int($0 * 100))%" } ?? "").aligned(to: 4)
        let size = progress.total.map { amount(progress.received, of: $0) } ?? Units.bytes(progress.received)
        switch view.phase {
        case .waiting(let why): return "\(name)  \(why)".shortened(to: width)
        case .retrying(let timestamp, let why):
            let seconds = max(0, (timestamp - .now).secondsValue)
            let part = progress.received > 0 ? "\(percent)  " : ""
            return "\(name) \(part) \(why), again in \(Units.duration(Int64(seconds.rounded(.up))))".shortened(
                to: width)
        case .running: break
        }
        if view.isHeld {
            return "\(name)  waits: its host has as many connections as allowed".shortened(to: width)
        }
        if progress.connections == 0, progress.received == 0 { return "\(name)  connecting".shortened(to: width) }
        if let total = progress.total, progress.received >= total {
            return "\(name) \(percent)  \(size)  \(view.ending)".shortened(to: width)
        }
        let eta = progress.eta.map { Units.duration($0) } ?? ""
        let right =
            "\(size)  \(Units.speed(progress.speed).aligned(to: 11))  \(eta.aligned(to: 6))"
        let left = "\(name) \(percent) "
        let available = width - Columns.of(left) - Columns.of(right) - 3
        guard available >= 5 else { return (left + right).shortened(to: width) }
        return "\(left)[\(filling(fraction, available))] \(right)"
    }

    private static func filling(_ fraction: Double?, _ available: Int) -> String {
        guard let fraction else { return String(repeating: " ", count: available) }
        let full = Int(Double(available) * fraction)
        let head = full < available && full > 0 ? ">" : ""
        return (String(repeating: "=", count: max(0, full - head.count)) + head).padded(to: available)
    }

    /// `1.2 of 2.9 GiB`: the unit is written once if both numbers have the same one.
    private static func amount(_ part: Int64, of whole: Int64) -> String {
        let (first, second) = (Units.bytes(part), Units.bytes(whole))
        let (unit, other) = (first.split(separator: " ").last, second.split(separator: " ").last)
        return unit == other ? "\(first.split(separator: " ")[0]) of \(second)" : "\(first) of \(second)"
    }

    /// `3 of 40 done, 1 failed  1.2 of 5.0 GiB  88.0 MiB/s  1m20s`
    private static func total(_ views: [GetRun.View], _ totals: Totals, hidden: Int) -> String {
        var facts = ["\(totals.done) of \(totals.all) done" + (totals.failed > 0 ? ", \(totals.failed) failed" : "")]
        let received = views.reduce(totals.doneBytes) { $0 + $1.progress.received }
        let speed = views.reduce(Int64(0)) { $0 + $1.progress.speed }
        // The size of a download that has not begun is not known.
        let isKnown = totals.done + totals.failed + views.count >= totals.all
        let sizes = views.map(\.progress.total)
        let whole = isKnown && !sizes.contains(nil) ? sizes.reduce(totals.doneBytes) { $0 + ($1 ?? 0) } : nil
        facts.append(whole.map { amount(received, of: $0) } ?? Units.bytes(received))
        facts.append(Units.speed(speed))
        if let whole, speed > 0 { facts.append(Units.duration(max(0, whole - received) / speed) + " left") }
        if hidden > 0 { facts.append("and \(hidden) more at work") }
        return facts.joined(separator: "  ")
    }
}
