package import HaulContract

/// What becomes of a run whose attempt failed.
extension RetryPolicy {
    /// What follows a failed attempt.
    package enum Verdict: Sendable {
        /// Another attempt after the wait. It counts.
        case retry(after: Duration)
        /// The same, but the attempt brought the file forward: it counts not, and those before it are forgotten.
        case carryOn(after: Duration)
        /// No more attempts. Whether a person who tries again may have more luck.
        case end(isRetryable: Bool)
    }

    /// Another attempt, or the end.
    ///
    /// - Parameters:
    ///   - failed: Attempts in a row that have failed before this one.
    ///   - retries: Attempts that may follow the first.
    package static func judge(
        _ failure: Failure, of activity: any Activity, failed: Int, retries: Int
    ) -> Verdict {
        let isRetryable = isRetryable(failure) && activity.isRepeatable
        // What was fetched of a file that changed is of no use.
        let isFurther = failure.code != .remoteChanged && activity.hasMadeHeadway
        let attempt = isFurther ? 1 : failed + 1
        guard isRetryable, isFurther || attempt <= retries else { return .end(isRetryable: isRetryable) }
        var generator = SystemRandomNumberGenerator()
        let wait = delay(attempt: attempt, retryAfter: failure.retryAfter, using: &generator)
        return isFurther ? .carryOn(after: wait) : .retry(after: wait)
    }
}
