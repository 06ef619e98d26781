package import HaulContract

extension RetryPolicy {
    /// What follows a failed attempt.
    package enum Verdict: Sendable {
        /// Another attempt after this time. It counts as a retry.
        case retry(after: Duration)
        /// The same, but the failed attempt made progress, so it does not count and earlier failures are forgotten.
        case retryAfterProgress(after: Duration)
        /// No more attempts. `isRetryable`: if a person retries the job, it may succeed.
        case end(isRetryable: Bool)
    }

    /// Decides between another attempt and the end.
    ///
    /// - Parameters:
    ///   - failed: Failed attempts in a row before this one.
    ///   - retries: How many attempts may follow the first one.
    ///   - isWebhook: The request is a webhook, which is repeated for a day.
    ///   - isOvertime: `max_seconds` has ended the attempt, whatever its speed.
    package static func judge(
        _ failure: Failure, after result: ActivityResult, failed: Int, retries: Int, isWebhook: Bool = false,
        isOvertime: Bool = false
    ) -> Verdict {
        let isRetryable =
            (isWebhook ? isRetryableForWebhook(failure) : isRetryable(failure)) && result.isRepeatable
        // The bytes of a file that has changed are useless. A gate that fails may do so each time, although the file
        // has arrived. An attempt below `min_speed` brings bytes all the time, and would be repeated until the file is
        // complete, however slow it is.
        let countsBytes =
            ![.remoteChanged, .gateFailed].contains(failure.code)
            && (failure.code != .tooSlow || isOvertime)
        let isFurther = countsBytes && result.hasMadeProgress
        let attempt = isFurther ? 1 : failed + 1
        guard isRetryable, isFurther || attempt <= retries else {
            return .end(isRetryable: isRetryable || failure.dependsOnWorker && result.isRepeatable)
        }
        var generator = SystemRandomNumberGenerator()
        let wait = delay(
            retry: attempt, retryAfter: failure.retryAfter, maxDelay: isWebhook ? 10_800 : 300, using: &generator)
        return isFurther ? .retryAfterProgress(after: wait) : .retry(after: wait)
    }
}
