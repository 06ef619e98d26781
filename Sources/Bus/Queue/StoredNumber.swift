extension Int64 {
    /// A time that is the score of a sorted set, unix ms; nil for a score that is no time. Any client may write a score,
    /// so it is limited, and the distance of two times cannot overflow.
    init?(score: String?) {
        guard let number = score.flatMap(Double.init), number.isFinite else { return nil }
        self = Int64(Swift.min(Swift.max(number.rounded(), -Self.limit), Self.limit))
    }

    private static let limit = 0x1p53
}
