/// What has happened in a queue since it began, as an exporter tells it.
struct QueueTotals: Sendable {
    /// All events that a queue has, but `progress`: Prometheus sees the first one of a kind only if it knows of 0 before it.
    static let events = [
        "batch_ended", "cancelled", "completed", "duplicate", "failed", "paused", "queued", "rejected", "requeued",
        "restarted",
        "resumed", "retrying", "started", "waiting", "warning",
    ]
    /// Servers choose codes like `http_599`: so many are told apart.
    private static let mostCodes = 100

    /// By their names in Redis; nil before the first look, and where they may not be read.
    private var counts: [String: Int64]?

    /// Takes what was read. A failover may lose the last seconds: a counter that went back a little would be taken for one that
    /// began anew, and all of it for new. So it stands still until it is passed. One that lost more than half did begin anew.
    mutating func take(_ new: [String: Int64]) {
        let old = counts ?? [:]
        counts = new.merging(old.filter { $1 / 2 < new[$0] ?? 0 }, uniquingKeysWith: max)
    }

    func add(to exposition: inout Exposition, _ label: Exposition.Labels) {
        guard let counts else { return }
        for event in Self.events { exposition.add(.queueEvents, label + [("event", event)], counts[event] ?? 0) }
        for (code, count) in failures(counts) { exposition.add(.queueFailures, label + [("code", code)], count) }
        exposition.add(.queueClaims, label, counts["claimed"] ?? 0)
        exposition.add(.queueLost, label, counts["lost"] ?? 0)
        exposition.add(.queueReceivedBytes, label, counts["received"] ?? 0)
    }

    /// By code; those that are too many have none of their own.
    private func failures(_ counts: [String: Int64]) -> [(code: String, count: Int64)] {
        let all = counts.filter { $0.key.hasPrefix("failed ") }.map {
            (code: String($0.key.dropFirst(7)), count: $0.value)
        }
        .sorted { ($1.count, $0.code) < ($0.count, $1.code) }
        let others = all.dropFirst(Self.mostCodes).reduce(0) { $0 + $1.count }
        return all.prefix(Self.mostCodes) + (others > 0 ? [("other", others)] : [])
    }
}
