import HaulTerminal

/// Lines at the bottom of a terminal that are drawn in place.
struct GetScreen {
    private var lines: [String] = []
    /// The columns of those that are on the screen.
    private var drawn: [Int] = []
    /// The terminal's columns.
    var width = 80

    /// Draws these, over those that are there.
    mutating func draw(_ lines: [String]) -> String {
        self.lines = lines
        return redraw()
    }

    /// Draws the same lines once more.
    mutating func redraw() -> String {
        let text = erasure + lines.map { $0 + "\n" }.joined()
        drawn = lines.map { Columns.of($0) }
        return text
    }

    /// Takes the lines away, for a text that stays.
    mutating func clear() -> String {
        defer { drawn = [] }
        return erasure
    }

    /// A terminal that has become narrower shows a line in several rows.
    private var erasure: String {
        let rows = drawn.reduce(0) { $0 + max(1, ($1 + width - 1) / max(1, width)) }
        return rows == 0 ? "" : "\u{1B}[\(rows)A\r\u{1B}[J"
    }
}
