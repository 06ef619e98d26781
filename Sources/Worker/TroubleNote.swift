/// Which troubles are worth a line of the log: the same one is not said again within ten seconds, another one not within one.
struct TroubleNote {
    private var last: (reason: String, at: ContinuousClock.Instant)?

    /// Whether `reason` is to be told now.
    mutating func isNews(_ reason: String, at now: ContinuousClock.Instant = .now) -> Bool {
        if let last, now - last.at < .seconds(last.reason == reason ? 10 : 1) { return false }
        last = (reason, now)
        return true
    }
}
