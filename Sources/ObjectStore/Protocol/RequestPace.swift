/// When a request that failed is sent again.
///
/// Each request has so many tries and so much time. What throttles one request slows all of a bucket: `BucketPace`.
struct RequestPace: Sendable {
    /// The tries of a request, the first one included.
    static let tries = 8
    /// What is still under way after this is given up: the job waits until the store is well again.
    static let patience = Duration.seconds(60)

    private static let first = 0.1
    private static let longest = 10.0

    /// The wait before try number `number` (the first retry is 1): doubled each time, with full jitter.
    static func wait(before number: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        let most = min(longest, first * Double(1 << min(number, 12)))
        return .seconds(Double.random(in: first / 2...most, using: &generator))
    }
}

/// How often a bucket may be asked: a value. Throttled once, it waits before the next request, twice as long each time; what
/// goes well halves the wait.
struct BucketPace: Sendable {
    private static let first = 0.05
    private static let longest = 5.0
    /// Refusals of requests that were sent together are one: seconds.
    private static let together = 1.0

    /// Seconds between requests; 0 while nothing throttles.
    private(set) var gap = 0.0
    private var next = 0.0
    private var throttled = -Double.infinity

    /// Seconds to wait for a request that is to be sent at `now`. It has its turn from then on.
    mutating func turn(at now: Double) -> Double {
        guard gap > 0 else { return 0 }
        let turn = max(now, next)
        next = turn + gap
        return turn - now
    }

    mutating func noteThrottled(at now: Double) {
        guard now - throttled >= Self.together else { return }
        throttled = now
        gap = min(Self.longest, max(Self.first, 2 * gap))
        next = max(next, now + gap)
    }

    mutating func noteServed() {
        gap = gap / 2 < Self.first / 2 ? 0 : gap / 2
        if gap == 0 { next = 0 }
    }
}
