/// The counters of a queue since its creation, as an exporter reports them.
struct QueueTotals: Sendable {
    /// All kinds of events but `progress`. All are reported from 0 on: Prometheus sees the first event of a kind only
    /// as an increase from 0.
    static let events = [
        "batch_ended", "cancelled", "completed", "duplicate", "failed", "paused", "queued", "rejected", "requeued",
        "restarted",
        "resumed", "retrying", "started", "waiting", "warning",
    ]
    /// The maximum number of error codes with a series of their own. Servers choose codes such as `http_599`, so their
    /// number must be limited.
    private static let maxCodes = 100

    /// By the counter's name in Redis. nil before the first reading, and if an ACL forbids reading.
    private var counts: [String: Int64]?

    /// Updates the counters with those of a new reading. A failover may lose the counts of the last seconds. Prometheus
    /// would take a smaller value for a counter that restarted from 0, and would count all of it again. So a counter
    /// keeps its old value until Redis' value passes it. A counter that has lost at least half of its value has really
    /// restarted.
    mutating func update(with new: [String: Int64]) {
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
        exposition.add(.queueSteps, label, counts["steps"] ?? 0)
        exposition.add(.queueWebhooks, label, counts["webhooks"] ?? 0)
        for outcome in ["pushed", "skipped", "missed"] {
            exposition.add(.queueScheduleRuns, label + [("outcome", outcome)], counts["schedule_" + outcome] ?? 0)
        }
        exposition.add(.queueScheduleLateness, label, Double(counts["schedule_late"] ?? 0) / 1000)
    }

    /// The failures by error code, most frequent first. All codes beyond `maxCodes` share the code `other`.
    private func failures(_ counts: [String: Int64]) -> [(code: String, count: Int64)] {
        let all = counts.filter { $0.key.hasPrefix("failed ") }.map {
            (code: String($0.key.dropFirst(7)), count: $0.value)
        }
        .sorted { ($1.count, $0.code) < ($0.count, $1.code) }
        let others = all.dropFirst(Self.maxCodes).reduce(0) { $0 + $1.count }
        return all.prefix(Self.maxCodes) + (others > 0 ? [("other", others)] : [])
    }
}
