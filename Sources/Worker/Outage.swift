/// What Redis refuses or does not answer, so that its return is told once, when all of it works again.
struct Outage {
    private var failing: Set<String> = []
    private var since: ContinuousClock.Instant?

    /// `what` could not be done.
    mutating func failed(_ what: String, at now: ContinuousClock.Instant = .now) {
        failing.insert(what)
        since = since ?? now
    }

    /// `what` was done. Returns how long the outage lasted, if this was the last thing that failed.
    mutating func worked(_ what: String, at now: ContinuousClock.Instant = .now) -> Duration? {
        guard !failing.isEmpty, failing.remove(what) != nil, failing.isEmpty, let since = since.take() else {
            return nil
        }
        return now - since
    }
}
