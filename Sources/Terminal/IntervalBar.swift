package import HaulContract

/// Draws which bytes of a file have been received, over its whole length.
package struct IntervalBar {
    private let have: ByteIntervals
    private let total: Int64

    /// - Parameter received: The number of bytes received. Used only if `durable` is empty: then these bytes are drawn
    ///   from the start of the file.
    package init(_ durable: ByteIntervals, total: Int64, received: Int64 = 0) {
        self.total = max(1, total)
        var have = durable
        if have.isEmpty, received > 0 { have.insert(0..<min(received, self.total)) }
        self.have = have
    }

    /// The file is cut into `width` equal parts. Each part has one column: full, begun, or empty.
    package func text(width: Int, isUnicode: Bool) -> String {
        let width = max(1, width)
        let (full, begun, empty): (Character, Character, Character) = isUnicode ? ("█", "▒", "·") : ("#", "+", ".")
        var result = ""
        var rest = have.intervals[...]
        for column in 0..<Int64(width) {
            let part = edge(column, width)..<max(edge(column, width) + 1, edge(column + 1, width))
            while let first = rest.first, first.upperBound <= part.lowerBound { rest.removeFirst() }
            var covered: Int64 = 0
            for interval in rest {
                if interval.lowerBound >= part.upperBound { break }
                covered += min(interval.upperBound, part.upperBound) - max(interval.lowerBound, part.lowerBound)
            }
            result.append(covered >= part.upperBound - part.lowerBound ? full : covered > 0 ? begun : empty)
        }
        return result
    }

    /// The offset at which a column begins. A `Double`, because a length times a width may overflow an `Int64`.
    private func edge(_ column: Int64, _ width: Int) -> Int64 {
        column >= Int64(width) ? total : Int64(Double(total) * Double(column) / Double(width))
    }
}
