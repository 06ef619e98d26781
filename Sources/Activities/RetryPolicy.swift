package import HaulContract
import HaulHTTP

/// Which failures are worth another attempt, and when.
package enum RetryPolicy {
    /// Attempts after the first, unless the job says otherwise.
    package static let retries = 5
    static let longestRetryAfter: Int64 = 3600

    package static func isRetryable(_ failure: Failure) -> Bool { !failure.isFinal && isRetryable(failure.code) }

    /// The one table of what is retried, unless it is known that it will not pass.
    package static func isRetryable(_ code: ErrorCode) -> Bool {
        switch code {
        case .dns, .connect, .tls, .proxy, .stalled, .incomplete, .badResponse, .tooSlow, .io, .localLimit,
            .remoteChanged:
            true
        case .http(408), .http(423), .http(425), .http(429), .http(500), .http(502), .http(503), .http(504): true
        default: false
        }
    }

    /// The wait before attempt number `attempt` (1 is the first retry): exponential with full jitter, from 0.2 s to at most 2 s,
    /// 4 s and so on up to 5 min; never less than what the server asked for.
    package static func delay(
        attempt: Int, retryAfter: Duration?, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let ceiling = min(300.0, Double(1 << min(max(attempt, 1), 16)))
        let jittered = Duration.seconds(Double.random(in: 0.2...ceiling, using: &generator))
        return max(jittered, retryAfter ?? .zero)
    }

    /// Retry-After (RFC 9110 section 10.2.3): seconds or a date; capped at an hour.
    static func retryAfter(_ text: String, now: Int64) -> Duration? {
        // More digits than a number can hold are a long time, too.
        let number = !text.isEmpty && text.utf8.allSatisfy { 48...57 ~= $0 } ? Int64(text) ?? .max : Int64(text)
        guard let seconds = number ?? HTTPDate.parse(text).map({ $0 - now }) else { return nil }
        return .seconds(min(max(0, seconds), longestRetryAfter))
    }
}
