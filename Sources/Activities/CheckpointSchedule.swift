/// Decides when a run's next checkpoint is due, and whether it must be reported to Redis before the next tick.
package struct CheckpointSchedule: Sendable {
    package enum Due { case canWait, urgent }

    private var bytes: Int64 = 0
    private var last = ContinuousClock.now
    private var previous: (bytes: Int64, last: ContinuousClock.Instant)?

    package init() {}

    /// A checkpoint is due after 32 MiB, or when `interval`, if given, has passed since the last one. From 16 MiB on it
    /// is `urgent`, which means that it is reported to Redis at once and not with the next tick. So together with bytes
    /// that arrive meanwhile, no more than 64 MiB or the bytes of one interval are ever unreported.
    ///
    /// - Parameter arrived: Bytes since the run began.
    package mutating func next(arrived: Int64, interval: Duration?, now: ContinuousClock.Instant = .now) -> Due? {
        let unreported = arrived - bytes
        let isTime = interval.map { unreported > 0 && now - last >= $0 } ?? false
        guard unreported >= 32 << 20 || isTime else { return nil }
        previous = (bytes, last)
        (bytes, last) = (arrived, now)
        return unreported >= 16 << 20 ? .urgent : .canWait
    }

    /// The checkpoint failed, or covered only a part of the bytes, so it is still due.
    package mutating func markStillDue() {
        if let (bytes, last) = previous.take() { (self.bytes, self.last) = (bytes, last) }
    }
}

/// Bounds how many checkpoints one pass over `runs` runs begins only because time has passed.
package struct CheckpointBudget: Sendable {
    private let pause: Duration
    private var left = 128

    package init(runs: Int) { pause = max(.seconds(1), .milliseconds(10) * runs) }

    /// How long after its last checkpoint the next run is due for another. nil when the budget of this pass is used up.
    package var interval: Duration? { left > 0 ? pause : nil }

    /// An urgent checkpoint does not count against the budget, however often it comes, so that fast runs do not
    /// displace slow ones.
    package mutating func record(_ due: CheckpointSchedule.Due?) { if due == .canWait { left -= 1 } }
}
