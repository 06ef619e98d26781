/// A set of byte positions as sorted, disjoint, non-touching half-open intervals: which bytes of a file are on disk.
///
/// In the bus' hash `offsets` a field is the first byte of an interval, and its value is the byte after the last one.
package struct ByteIntervals: Sendable, Equatable {
    /// Ascending; adjacent intervals never touch.
    package private(set) var intervals: [Range<Int64>] = []

    package init() {}

    package init(_ intervals: some Sequence<Range<Int64>>) { for interval in intervals { insert(interval) } }

    /// The number of bytes in the set.
    package var count: Int64 { intervals.reduce(0) { $0 + ($1.upperBound - $1.lowerBound) } }

    /// The position after the highest byte, 0 if empty. A file that holds these bytes is at least this long.
    package var end: Int64 { intervals.last?.upperBound ?? 0 }

    package var isEmpty: Bool { intervals.isEmpty }

    package func contains(_ range: Range<Int64>) -> Bool {
        range.isEmpty || intervals.contains { $0.lowerBound <= range.lowerBound && range.upperBound <= $0.upperBound }
    }

    /// Adds the bytes of `range`. Merges `range` with the intervals that it overlaps or touches.
    package mutating func insert(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        // The fast path: bytes mostly arrive in order.
        if let last = intervals.last, last.upperBound < range.lowerBound { return intervals.append(range) }
        let first = intervals.firstIndex { $0.upperBound >= range.lowerBound } ?? intervals.endIndex
        let after = intervals[first...].firstIndex { $0.lowerBound > range.upperBound } ?? intervals.endIndex
        let touched = intervals[first..<after]
        let lower = min(range.lowerBound, touched.first?.lowerBound ?? range.lowerBound)
        let upper = max(range.upperBound, touched.last?.upperBound ?? range.upperBound)
        intervals.replaceSubrange(first..<after, with: [lower..<upper])
    }

    /// The bytes of `0..<total` that are not in the set, in order.
    package func gaps(in total: Int64) -> [Range<Int64>] {
        var gaps: [Range<Int64>] = []
        var position: Int64 = 0
        for interval in intervals where interval.lowerBound < total {
            if position < interval.lowerBound { gaps.append(position..<interval.lowerBound) }
            position = max(position, interval.upperBound)
        }
        if position < total { gaps.append(position..<total) }
        return gaps
    }
}
