import HaulContract
import HaulTerminal

/// The results of the downloads as text.
enum GetTable {
    /// One result as a line, for a file or a pipe.
    static func line(_ item: GetItem, _ result: GetResult, from here: String) -> String {
        var parts = [result.word]
        if case .failed(let failure) = result.end {
            parts += ["\(failure.code): \(failure.message)", item.job.urls.first.map(MaskedURL.keepingQuery) ?? ""]
            return parts.joined(separator: "  ").printable
        }
        parts.append(name(item, result, from: here))
        if let bytes = result.bytes { parts.append(Units.bytes(bytes)) }
        if case .completed = result.end {
            parts.append(Units.duration(result.seconds))
            if let speed = result.speed { parts.append(Units.speed(speed)) }
        }
        if !result.verified.isEmpty { parts.append("verified: \(result.verified)") }
        // The name does not say which of the URLs it is.
        if item.sharesName { parts.append(item.urls.first.map(MaskedURL.keepingQuery) ?? "") }
        return parts.joined(separator: "  ").printable
    }

    /// A table with a header, and a line of totals if there are several downloads, which says where the files are. The
    /// failures were printed when they happened, which may have scrolled away. So the table has them again, unless it
    /// would have nothing else.
    static func lines(
        _ results: [(GetItem, GetResult)], from here: String, seconds: Double, width: Int
    ) -> [String] {
        let good = results.filter { !$0.1.isFailed }
        let failures = results.filter(\.1.isFailed).map { line($0.0, $0.1, from: here) }
        guard !good.isEmpty else { return results.count > 1 ? failures + [sum(results, seconds)] : [] }
        var rows = [["file", "size", "time", "speed", "verified"]]
        for (item, result) in good {
            let isFetched = if case .completed = result.end { true } else { false }
            rows.append([
                name(item, result, from: here).printable, result.bytes.map(Units.bytes) ?? "",
                isFetched ? Units.duration(result.seconds) : result.word,
                result.speed.map(Units.speed) ?? "", result.verified,
            ])
        }
        var widths = (0..<5).map { column in rows.map { Columns.of($0[column]) }.max() ?? 0 }
        let others = widths.dropFirst().reduce(0, +) + 8
        widths[0] = min(widths[0], max(12, width - 1 - others))
        var lines = rows.map { row in
            let cells = row.enumerated().map { column, text in
                column == 0
                    ? text.shortened(to: widths[0]).padded(to: widths[0])
                    : column == 4 ? text : text.aligned(to: widths[column])
            }
            var line = cells.joined(separator: "  ")
            while line.last == " " { line.removeLast() }
            return line
        }
        lines += failures
        if results.count > 1 { lines.append(sum(results, seconds)) }
        return lines
    }

    private static func sum(_ results: [(GetItem, GetResult)], _ seconds: Double) -> String {
        var facts = [String]()
        for (word, count) in [("completed", 0), ("unchanged", 0), ("skipped", 0), ("failed", 0), ("interrupted", 0)]
            .map({ word, _ in (word, results.count { $0.1.word == word }) }) where count > 0
        {
            facts.append("\(count) \(word)")
        }
        let bytes = results.reduce(Int64(0)) { sum, pair in
            if case .completed = pair.1.end { sum + pair.1.transferred } else { sum }
        }
        let rate = seconds > 0 && bytes > 0 ? " (\(Units.speed(Int64(Double(bytes) / seconds))))" : ""
        let roots = Set(results.filter { !$0.1.isFailed }.map(\.0.root))
        let location = roots.count == 1 ? "; in \(roots.first ?? "")".printable : ""
        return "\(facts.joined(separator: ", ")); \(Units.bytes(bytes)) in \(Units.duration(seconds))\(rate)\(location)"
    }

    private static func name(_ item: GetItem, _ result: GetResult, from here: String) -> String {
        result.file.map { item.shown($0, from: here) } ?? item.label
    }
}
