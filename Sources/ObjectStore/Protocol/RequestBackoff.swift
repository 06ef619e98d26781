/// When a failed request is retried.
///
/// Each request has a number of tries and a time limit. Throttling slows all requests to a bucket: `BucketThrottle`.
struct RequestBackoff: Sendable {
    /// The tries of a request, the first one included.
    static let tries = 8
    /// After this time a request is not retried. The job fails or waits until the store works again.
    static let maxTime = Duration.seconds(60)

    private static let initialSeconds = 0.1
    private static let maxSeconds = 10.0

    /// The backoff before retry `number` (the first retry is 1). The upper bound doubles each time, and jitter chooses
    /// a time below it.
    static func wait(before number: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        let limit = min(maxSeconds, initialSeconds * Double(1 << min(number, 12)))
        return .seconds(Double.random(in: initialSeconds / 2...limit, using: &generator))
    }
}

/// The rate of all requests to a bucket, as a value. Throttling starts with a small gap between requests and doubles it
/// each time. Each success halves it.
struct BucketThrottle: Sendable {
    private static let initialGap = 0.05
    private static let maxGap = 5.0
    /// Throttling responses within this many seconds count as one, because their requests were sent together.
    private static let throttlingWindow = 1.0

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
        guard now - throttled >= Self.throttlingWindow else { return }
        throttled = now
        gap = min(Self.maxGap, max(Self.initialGap, 2 * gap))
        next = max(next, now + gap)
    }

    mutating func recordSuccess() {
        gap = gap / 2 < Self.initialGap / 2 ? 0 : gap / 2
        if gap == 0 { next = 0 }
    }
}
