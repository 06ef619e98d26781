import HaulHTTP

/// How far our clock is behind the server's, as its Date fields tell.
struct ClockSkew: Sendable {
    /// A server refuses what is 15 minutes off. Less than this is the way's own delay, and a Date has whole seconds.
    static let worthwhile: Int64 = 30

    /// Seconds to add to our time.
    private(set) var seconds: Int64 = 0

    /// True if what was signed before was too far off.
    mutating func note(date: String?, at now: Int64) -> Bool {
        guard let server = date.flatMap(HTTPDate.parse) else { return false }
        let skew = server - now
        guard abs(skew - seconds) > Self.worthwhile else { return false }
        seconds = abs(skew) > Self.worthwhile ? skew : 0
        return true
    }
}
