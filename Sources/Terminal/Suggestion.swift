/// Finds the word that a mistyped one was probably meant to be.
package enum Suggestion {
    /// The nearest of `words`; nil if none is near enough.
    ///
    /// - Parameter maxDistance: The maximum edit distance. [a third of the word's length, at least 1]
    package static func nearest(to typed: String, among words: [String], within maxDistance: Int? = nil) -> String? {
        let ranked = words.map { ($0, distance(typed, $0)) }.min { $0.1 < $1.1 }
        guard let (word, distance) = ranked, distance <= maxDistance ?? max(1, word.count / 3) else { return nil }
        return word
    }

    /// The number of characters to insert, delete, replace or swap with the next one (the optimal string alignment
    /// distance).
    private static func distance(_ first: String, _ second: String) -> Int {
        let (a, b) = (Array(first), Array(second))
        var rows = [Array(0...b.count)]
        for i in 1..<(a.count + 1) {
            var row = [i]
            for j in 1..<(b.count + 1) {
                let replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)
                var cost = min(replaced, rows[i - 1][j] + 1, row[j - 1] + 1)
                if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] {
                    cost = min(cost, rows[i - 2][j - 2] + 1)
                }
                row.append(cost)
            }
            rows.append(row)
        }
        return rows[a.count][b.count]
    }
}
