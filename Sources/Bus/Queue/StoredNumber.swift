/// Numbers that are read from Redis. Any client may write there, so they are limited, and sums and differences of them
/// cannot overflow.
extension Int64 {
    /// A number of a hash, from 0 on; nil for a text that is not a whole number.
    package init?(field text: String?) {
        guard let number = text.flatMap({ Int64($0) }) else { return nil }
        self = Swift.min(Swift.max(0, number), Int64(Self.limit))
    }

    /// A time that is the score of a sorted set, unix ms; nil for a score that is not a time.
    init?(score: String?) {
        guard let number = score.flatMap(Double.init), number.isFinite else { return nil }
        self = Int64(Swift.min(Swift.max(number.rounded(), -Self.limit), Self.limit))
    }

    private static let limit = 0x1p53
}
