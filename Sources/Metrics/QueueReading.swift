import HaulBus
import HaulContract

/// The result of reading a queue once.
struct QueueReading: Sendable {
    let stats: QueueStats
    /// The number of workers that were seen within `Queue.silence`, of their slots, and of their taken slots.
    private(set) var workers = 0
    private(set) var slots = 0
    private(set) var taken = 0
    /// The age of the next waiting element in seconds. nil if an ACL forbids reading it.
    let waited: Double?
    let totals: QueueTotals
    let gauges: QueueGauges
    /// The time by Redis' clock, unix ms.
    private let now: Int64

    /// The highest count that is accepted. Workers' hashes are not trusted, and the sum of their counts must not
    /// overflow.
    private static let maxCount = 1 << 32
    /// How many groups of consumers have series of their own: those that are farthest behind.
    private static let maxConsumers = 20

    init(
        stats: QueueStats, workers: [[String: String]], waited: Double?, totals: QueueTotals, gauges: QueueGauges,
        now: Int64
    ) {
        (self.stats, self.waited, self.totals, self.gauges, self.now) = (stats, waited, totals, gauges, now)
        for fields in workers {
            guard let seen = Int64(field: fields["seen"]), seen >= now - Int64(Queue.silence) * 1000 else {
                continue
            }
            let running = Self.count(fields["running"]) ?? 0
            self.workers += 1
            taken += running
            slots += Self.count(fields["slots"]) ?? running
        }
    }

    private static func count(_ text: String?) -> Int? { text.flatMap { Int($0) }.map { min(max(0, $0), maxCount) } }

    func add(to exposition: inout Exposition, _ label: Exposition.Labels) {
        for state in JobState.allCases {
            exposition.add(.queueJobs, label + [("state", state.rawValue)], stats.counts[state] ?? 0)
        }
        if let waited { exposition.add(.queueOldestWaiting, label, waited) }
        exposition.add(.queueRejected, label, stats.rejected)
        exposition.add(.queueWorkers, label, workers)
        exposition.add(.queueSlots, label, slots)
        exposition.add(.queueSlotsTaken, label, taken)
        exposition.add(.queuePaused, label, stats.isPaused ? 1 : 0)
        if let maxRunning = stats.maxRunning { exposition.add(.queueMaxRunning, label, maxRunning) }
        if let timestamp = stats.lastTick { exposition.add(.queueLastTick, label, Double(timestamp) / 1000) }
        let (waiting, limited) = (stats.waiting.groups, Set(stats.waiting.limitedGroups.map(\.group)))
        exposition.add(.queueGroups, label + [("waits_for", "turn")], waiting.subtracting(limited).count)
        exposition.add(.queueGroups, label + [("waits_for", "limit")], limited.count)
        totals.add(to: &exposition, label)
        addGauges(to: &exposition, label)
    }

    private func addGauges(to exposition: inout Exposition, _ label: Exposition.Labels) {
        if let schedules = gauges.schedules {
            exposition.add(.queueSchedules, label, schedules)
            let overdue = max(0, now - (gauges.nextDue ?? now))
            exposition.add(.queueScheduleOverdue, label, Double(overdue) / 1000)
        }
        if let events = gauges.keptEvents { exposition.add(.queueKeptEvents, label, events) }
        if let oldest = gauges.oldestEvent { exposition.add(.queueOldestKeptEvent, label, Double(oldest) / 1000) }
        let consumers = gauges.consumers.sorted {
            ($1.value.lag ?? 0, $1.value.pending, $0.key) < ($0.value.lag ?? 0, $0.value.pending, $1.key)
        }
        for (group, behind) in consumers.prefix(Self.maxConsumers) {
            let label = label + [("group", group)]
            if let lag = behind.lag { exposition.add(.queueConsumerLag, label, lag) }
            if let ratio = behind.lagRatio { exposition.add(.queueConsumerLagRatio, label, ratio) }
            exposition.add(.queueConsumerPending, label, behind.pending)
        }
    }
}
