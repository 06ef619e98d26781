import HaulHTTP

/// How far the local clock is behind the server's, by the Date fields of its replies.
struct ClockSkew: Sendable {
    /// Seconds. A smaller skew may be the network's delay, and Date has whole seconds. Servers accept 15 minutes.
    static let worthwhile: Int64 = 30

    /// Seconds to add to the local time.
    private(set) var seconds: Int64 = 0

    /// Records the Date of a reply that came at the local time `now`, in seconds since 1970. True if the skew has
    /// changed, so that requests were signed with a wrong time before.
    mutating func record(date: String?, at now: Int64) -> Bool {
        guard let server = date.flatMap(HTTPDate.parse) else { return false }
        let skew = server - now
        guard abs(skew - seconds) > Self.worthwhile else { return false }
        seconds = abs(skew) > Self.worthwhile ? skew : 0
        return true
    }
}
