/// A row about a transfer at work, in columns that do not move while it runs: `film.iso  52% ████·····  2.5/4.8 GB
/// 88.0 MB/s  27s`. All commands that show progress use it.
package struct ProgressRow {
    /// Made `printable` by the row.
    package var name: String
    package var received: Int64 = 0
    package var total: Int64?
    package var speed: Int64 = 0
    /// Seconds until the end.
    package var eta: Int64?
    /// What happens instead of a transfer, such as a retry; nil while bytes arrive.
    package var note: String?

    package init(_ name: String) { self.name = name }

    /// The widest bar. A longer one says nothing more, and moves the columns away from the name.
    private static let maxBar = 30
    private static let maxName = 40
    private static let minName = 12

    /// The received part, 0 to 1; nil if the size is not known.
    private var fraction: Double? { total.flatMap { $0 > 0 ? min(1, max(0, Double(received) / Double($0))) : nil } }

    /// The columns of a terminal. They depend on its width only, so no row moves another one.
    private struct Layout {
        var name: Int
        /// 0 for a column that has no space.
        var bar = 0, size = 0, speed = 0, eta = 0

        init(_ width: Int) {
            // The percentage and the blanks around it.
            var rest = width - 6 - ProgressRow.minName
            func take(_ column: Int) -> Int {
                guard rest >= column + 2 else { return 0 }
                rest -= column + 2
                return column
            }
            speed = take(10)
            eta = take(6)
            size = take(14)
            name = min(ProgressRow.maxName, ProgressRow.minName + max(0, rest) / 2)
            rest -= name - ProgressRow.minName
            bar = rest >= 10 ? min(ProgressRow.maxBar, rest - 2) : 0
            if bar == 0 { name = max(1, min(ProgressRow.maxName, name + max(0, rest), width - 6)) }
        }
    }

    /// The row in at most `width` columns.
    package func text(width: Int, isUnicode: Bool = Columns.showsUnicode) -> String {
        let layout = Layout(width)
        let percent = fraction.map { "\(Int($0 * 100))%" } ?? ""
        var line =
            name.printable.shortened(to: layout.name).padded(to: layout.name) + "  " + percent.aligned(to: 4)
        if let note { return (line + "  " + note.printable).truncated(to: width).trimmed }
        if layout.bar > 0 { line += " " + bar(layout.bar, isUnicode) + " " }
        if layout.size > 0 { line += "  " + Units.amount(received, of: total).aligned(to: layout.size) }
        if layout.speed > 0 { line += "  " + Units.speed(speed).aligned(to: layout.speed) }
        if layout.eta > 0 { line += "  " + (eta.map(Units.duration) ?? "").aligned(to: layout.eta) }
        return line.truncated(to: width).trimmed
    }

    private func bar(_ width: Int, _ isUnicode: Bool) -> String {
        let full = Int(Double(width) * (fraction ?? 0))
        let (one, other) = isUnicode ? ("█", "·") : ("#", ".")
        return String(repeating: one, count: full)
            + String(repeating: fraction == nil ? " " : other, count: width - full)
    }

    /// A sign that turns while a connection is being made.
    package static func spinner(at instant: ContinuousClock.Instant, isUnicode: Bool = Columns.showsUnicode) -> String {
        let frames = isUnicode ? ["⠋", "⠙", "⠸", "⠴", "⠦", "⠇"] : ["-", "\\", "|", "/"]
        let elapsed = (instant - Self.begun) / .milliseconds(200)
        return frames[Int(elapsed) % frames.count]
    }

    private static let begun = ContinuousClock.now
}

extension String {
    /// Without blanks at its end.
    fileprivate var trimmed: String {
        var text = self
        while text.last == " " { text.removeLast() }
        return text
    }
}
