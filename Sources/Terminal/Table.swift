/// Rows under headers. Columns are as wide as their contents, or narrower if the terminal has no space.
package struct Table {
    package struct Column {
        let title: String
        let isNumber: Bool
        /// The width to which it may be cut; nil if it is never cut.
        let minWidth: Int?
        /// A text that is too long is cut at its beginning, not at its end.
        let keepsEnd: Bool
        /// Without space for all columns, the column of the lowest rank is left out first.
        let rank: Int
        /// The minimum width before any cut, so that the column does not move while its rows change.
        let width: Int
        /// The colour of a cell (the number of SGR, such as 31 for red) by its text; nil for none.
        let color: (@Sendable (String) -> Int?)?

        package init(
            title: String, isNumber: Bool = false, minWidth: Int? = nil, keepsEnd: Bool = false, rank: Int = 9,
            width: Int = 0, color: (@Sendable (String) -> Int?)? = nil
        ) {
            (self.title, self.isNumber, self.minWidth) = (title, isNumber, minWidth)
            (self.keepsEnd, self.rank, self.width, self.color) = (keepsEnd, rank, width, color)
        }
    }

    package let columns: [Column]
    package private(set) var rows: [[String]] = []

    package init(_ columns: [Column]) { self.columns = columns }

    /// - Parameter row: One cell for each column.
    package mutating func add(_ row: [String]) { rows.append(row.map(\.printable)) }

    private static let gap = 2
    /// Without a terminal no column is padded beyond this width, so that one long text does not widen every line.
    private static let maxPadding = 48

    /// The header and the rows. A column that is empty in all rows is left out, unless it has a fixed `width`.
    ///
    /// - Parameters:
    ///   - width: The columns of the terminal; nil if lines may be of any width.
    ///   - isColored: Whether cells have the colours of their columns.
    package func lines(width: Int?, isColored: Bool = false) -> [String] {
        let filled = columns.indices.filter { index in
            columns[index].width > 0 || rows.contains { !$0[index].isEmpty }
        }
        let widths = widths(of: filled, within: width)
        let shown = filled.filter { widths[$0] != nil }
        return ([columns.map(\.title)] + rows).enumerated().map { number, row in
            var line = ""
            for (position, index) in shown.enumerated() {
                if position > 0 { line += String.spaces(Self.gap) }
                let isLast = position == shown.count - 1
                let text =
                    width == nil
                    ? padded(row[index], columns[index], widths[index]!, isLast: isLast)
                    : cell(row[index], columns[index], widths[index]!, isLast: isLast)
                let color = isColored && number > 0 ? columns[index].color?(row[index]) : nil
                line += color.map { "\u{1B}[\($0)m\(text)\u{1B}[0m" } ?? text
            }
            return line
        }
    }

    /// The titles of the columns with a text that are left out at this width.
    package func omitted(width: Int?) -> [String] {
        let filled = columns.indices.filter { index in rows.contains { !$0[index].isEmpty } }
        let widths = widths(of: filled, within: width)
        return filled.filter { widths[$0] == nil }.map { columns[$0].title }
    }

    /// The whole text, padded if it is shorter than the column.
    private func padded(_ text: String, _ column: Column, _ width: Int, isLast: Bool) -> String {
        let width = max(Columns.of(text), min(width, Self.maxPadding))
        return cell(text, column, width, isLast: isLast)
    }

    private func cell(_ text: String, _ column: Column, _ width: Int, isLast: Bool) -> String {
        let text = column.keepsEnd ? text.truncatedAtStart(to: width) : text.truncated(to: width)
        if column.isNumber { return text.aligned(to: width) }
        return isLast ? text : text.padded(to: width)
    }

    /// The widths by column index. Columns that do not fit are missing.
    private func widths(of filled: [Int], within available: Int?) -> [Int: Int] {
        var widths: [Int: Int] = [:]
        for index in filled {
            let widest = rows.map { Columns.of($0[index]) }.max() ?? 0
            widths[index] = max(widest, columns[index].title.count, columns[index].width)
        }
        guard let available else { return widths }
        func minWidth(_ index: Int) -> Int {
            columns[index].minWidth.map { min(widths[index]!, max($0, columns[index].title.count)) } ?? widths[index]!
        }
        func total(_ width: (Int) -> Int) -> Int {
            widths.keys.reduce(0) { $0 + width($1) + Self.gap } - Self.gap
        }
        while widths.count > 1, total(minWidth) > available {
            let last = widths.keys.min { (columns[$0].rank, -$0) < (columns[$1].rank, -$1) }!
            widths[last] = nil
        }
        // The widest column is narrowed first, so that short texts stay whole.
        var excess = total { widths[$0]! } - available
        while excess > 0 {
            guard
                let widest = widths.keys.filter({ widths[$0]! > minWidth($0) }).max(by: {
                    (widths[$0]!, $0) < (widths[$1]!, $1)
                })
            else { break }
            widths[widest]! -= 1
            excess -= 1
        }
        if excess > 0, let only = widths.keys.first, widths.count == 1 { widths[only] = max(1, available) }
        return widths
    }
}
