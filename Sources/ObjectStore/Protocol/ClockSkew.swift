import HaulHTTP

/// How far the local clock is behind the server's, by the Date fields of its responses.
struct ClockSkew: Sendable {
    /// A skew of fewer seconds is ignored: it may be the network's delay, Date has only whole seconds, and servers
    /// accept 15 minutes.
    static let tolerance: Int64 = 30

    /// Seconds to add to the local time.
    private(set) var seconds: Int64 = 0

    /// Records the Date of a response that came at the local time `now`, in seconds since 1970. True if the skew has
    /// changed, so that requests were signed with a wrong time before.
    mutating func record(date: String?, at now: Int64) -> Bool {
        guard let server = date.flatMap(HTTPDate.parse) else { return false }
        let skew = server - now
        guard abs(skew - seconds) > Self.tolerance else { return false }
        seconds = abs(skew) > Self.tolerance ? skew : 0
        return true
    }
}
