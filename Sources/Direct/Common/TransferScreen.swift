import HaulTerminal

/// Lines at the bottom of a terminal that are redrawn in place. The methods return the text to write.
struct TransferScreen {
    private var lines: [String] = []
    /// The widths of the lines that are on the screen.
    private var drawn: [Int] = []
    /// The terminal's columns.
    var width = 80

    /// Replaces the lines on the screen.
    mutating func draw(_ lines: [String]) -> String {
        self.lines = lines
        return redraw()
    }

    /// Draws the same lines again.
    mutating func redraw() -> String {
        let text = erasure + lines.map { $0 + "\n" }.joined()
        drawn = lines.map { Columns.of($0) }
        return text
    }

    /// Removes the lines, so that a text that stays can be written in their place.
    mutating func clear() -> String {
        defer { drawn = [] }
        return erasure
    }

    /// The text that erases the lines. On a terminal that has become narrower, a line takes several rows.
    private var erasure: String {
        let rows = drawn.reduce(0) { $0 + max(1, ($1 + width - 1) / max(1, width)) }
        return rows == 0 ? "" : "\u{1B}[\(rows)A\r\u{1B}[J"
    }
}
