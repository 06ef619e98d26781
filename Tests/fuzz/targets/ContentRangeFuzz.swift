/// Content-Range: a parsed value is a range within its total, and is the same when it is written and parsed again.
enum ContentRangeFuzz: FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer) {
        guard let answer = ContentRange(bytes.text) else { return }
        precondition(answer.range.lowerBound >= 0 && !answer.range.isEmpty)
        if let total = answer.total { precondition(answer.range.upperBound <= total) }
        let total = answer.total.map { String($0) } ?? "*"
        precondition(
            ContentRange("bytes \(answer.range.lowerBound)-\(answer.range.upperBound - 1)/\(total)") == answer)
    }
}
