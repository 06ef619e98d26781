/// When a failed request is retried.
///
/// Each request has a number of tries and a time limit. Throttling slows all requests to a bucket: `BucketThrottle`.
struct RequestBackoff: Sendable {
    /// The tries of a request, the first one included.
    static let tries = 8
    /// After this time a request is not retried. The job fails or waits until the store works again.
    static let maxTime = Duration.seconds(60)

    private static let first = 0.1
    private static let longest = 10.0

    /// The backoff before retry `number` (the first retry is 1). The upper bound doubles each time, and jitter chooses
    /// a time below it.
    static func wait(before number: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        let limit = min(longest, first * Double(1 << min(number, 12)))
        return .seconds(Double.random(in: first / 2...limit, using: &generator))
    }
}

/// The rate of all requests to a bucket, as a value. Throttling starts with a small gap between requests and doubles it
/// each time. Each success halves it.
struct BucketThrottle: Sendable {
    private static let first = 0.05
    private static let longest = 5.0
    /// Seconds. Throttling replies that come within this time count as one, since their requests were sent together.
    private static let together = 1.0

    /// Seconds between requests; 0 without throttling.
    private(set) var gap = 0.0
    private var next = 0.0
    private var throttled = -Double.infinity

    /// Seconds to wait before a request that is ready at `now`. The request's turn is then reserved.
    mutating func turn(at now: Double) -> Double {
        guard gap > 0 else { return 0 }
        let turn = max(now, next)
        next = turn + gap
        return turn - now
    }

    mutating func recordThrottled(at now: Double) {
        guard now - throttled >= Self.together else { return }
        throttled = now
        gap = min(Self.longest, max(Self.first, 2 * gap))
        next = max(next, now + gap)
    }

    mutating func recordServed() {
        gap = gap / 2 < Self.first / 2 ? 0 : gap / 2
        if gap == 0 { next = 0 }
    }
}
