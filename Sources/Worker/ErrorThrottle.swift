/// Decides which errors are logged. The error that was logged last is logged again after ten seconds at the earliest,
/// another error after one second.
struct ErrorThrottle {
    private var last: (reason: String, at: ContinuousClock.Instant)?

    /// Whether `reason` is to be logged now.
    mutating func isNews(_ reason: String, at now: ContinuousClock.Instant = .now) -> Bool {
        if let last, now - last.at < .seconds(last.reason == reason ? 10 : 1) { return false }
        last = (reason, now)
        return true
    }
}
