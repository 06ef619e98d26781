/// A request, as the origin has read it.
package struct OriginRequest: Sendable {
    package let method: String
    package let path: String
    /// Names in lower case.
    package let headers: [String: String]
    package let body: OriginBody
    /// 1 for the first request of this path.
    package let number: Int
    /// The number of the connection, counted from 1.
    package let connection: Int

    /// The ranges of `bytes=a-b`, `bytes=a-`, `bytes=-n` and lists of these, clamped to `count`. A range that cannot be
    /// satisfied is empty. nil without a valid Range.
    package func ranges(of count: Int64) -> [Range<Int64>]? {
        guard let text = headers["range"], text.hasPrefix("bytes=") else { return nil }
        var ranges: [Range<Int64>] = []
        for part in text.dropFirst(6).split(separator: ",") {
            let ends = part.filter { $0 != " " }.split(separator: "-", omittingEmptySubsequences: false)
            guard ends.count == 2 else { return nil }
            switch (Int64(ends[0]), Int64(ends[1])) {
            case (let first?, let last):
                let end = last.map { min($0 + 1, count) } ?? count
                ranges.append(first < end ? first..<end : first..<first)
            case (nil, let length?): ranges.append(max(0, count - length)..<count)
            case (nil, nil): return nil
            }
        }
        return ranges.isEmpty ? nil : ranges
    }

    /// The requested range. nil if the request has several ranges or none.
    package func range(of count: Int64) -> Range<Int64>? {
        ranges(of: count).flatMap { $0.count == 1 ? $0[0] : nil }
    }
}
