package import HaulContract
import HaulHTTP

/// Decides which failures are worth another attempt, and when to make it.
package enum RetryPolicy {
    /// Attempts after the first one, unless the job sets `retries`.
    package static let defaultRetries = 5
    /// The same for a webhook. The waits between so many attempts are a day on average.
    package static let webhookRetries = 28
    /// Seconds, so that no sum overflows.
    static let maxRetryAfter: Int64 = 1 << 32

    package static func isRetryable(_ failure: Failure) -> Bool { !failure.isFinal && isRetryable(failure.code) }

    /// Whether a webhook is sent again after an error. Its receiver may have been misconfigured for hours, and so may
    /// this worker. 410 says that the resource is gone for good.
    package static func isRetryableForWebhook(_ failure: Failure) -> Bool {
        if let status = failure.code.httpStatus { return status != 410 }
        return isRetryable(failure.code) || failure.code == .badJob || failure.code == .tooLarge
    }

    /// Which errors are retried, unless the failure `isFinal`. Nothing else decides that.
    package static func isRetryable(_ code: ErrorCode) -> Bool {
        switch code {
        case .dns, .connect, .tls, .proxy, .stalled, .incomplete, .badResponse, .tooSlow, .io, .localLimit,
            .remoteChanged, .gateFailed:
            true
        case .http(408), .http(423), .http(425), .http(429), .http(500), .http(502), .http(503), .http(504): true
        default: false
        }
    }

    /// The backoff before the retry with this number, counted from 1. It is exponential with full jitter: a random time
    /// from 0.2 s to 2 s, then to 4 s and so on, up to `maxDelay` seconds. It is never shorter than `retryAfter`.
    package static func delay(
        retry: Int, retryAfter: Duration?, maxDelay: Double = 300, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let ceiling = min(maxDelay, Double(1 << min(max(retry, 1), 16)))
        let jittered = Duration.seconds(Double.random(in: 0.2...ceiling, using: &generator))
        return max(jittered, retryAfter ?? .zero)
    }

    /// Reads Retry-After (RFC 9110 section 10.2.3), a number of seconds or a date.
    ///
    /// - Parameter now: Unix seconds, by the server's clock if it is known.
    static func retryAfter(_ text: String, now: Int64) -> Duration? {
        // A number with too many digits for an Int64 means a very long time.
        let number = !text.isEmpty && text.utf8.allSatisfy { 48...57 ~= $0 } ? Int64(text) ?? .max : Int64(text)
        guard let seconds = number ?? HTTPDate.parse(text).map({ $0 - now }) else { return nil }
        return .seconds(min(max(0, seconds), maxRetryAfter))
    }
}
