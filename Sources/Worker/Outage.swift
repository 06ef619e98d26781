/// The operations on Redis that fail, so that its return is logged once, when all of them work again.
struct Outage {
    private var failing: Set<String> = []
    private var since: ContinuousClock.Instant?

    /// The operation `what` failed.
    mutating func failed(_ what: String, at now: ContinuousClock.Instant = .now) {
        failing.insert(what)
        since = since ?? now
    }

    /// The operation `what` worked. Returns how long the outage lasted, if this was the last one that failed.
    mutating func worked(_ what: String, at now: ContinuousClock.Instant = .now) -> Duration? {
        guard !failing.isEmpty, failing.remove(what) != nil, failing.isEmpty, let since = since.take() else {
            return nil
        }
        return now - since
    }
}
