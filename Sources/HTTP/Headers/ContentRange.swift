/// `Content-Range: bytes 0-99/200` (RFC 9110 section 14.4).
package struct ContentRange: Sendable, Equatable {
    package var range: Range<Int64>
    /// The size of the whole representation in bytes; nil for `*`.
    package var total: Int64?

    /// nil unless `text` is one satisfied byte range.
    package init?(_ text: String) {
        let words = text.split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let parts = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.digits(ends[0]), let last = Self.digits(ends[1]), first <= last,
            last < .max
        else { return nil }
        range = first..<(last + 1)
        if parts[1] != "*" {
            guard let total = Self.digits(parts[1]), total > last else { return nil }
            self.total = total
        }
    }

    private static func digits(_ text: Substring) -> Int64? {
        text.utf8.allSatisfy { 48...57 ~= $0 } ? Int64(text) : nil
    }
}
