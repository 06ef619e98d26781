/// When a run's next checkpoint is due, and whether it can wait to be told with others.
package struct CheckpointPace: Sendable {
    package enum Due { case canWait, urgent }

    private var bytes: Int64 = 0
    private var last = ContinuousClock.now
    private var previous: (bytes: Int64, last: ContinuousClock.Instant)?

    package init() {}

    /// After 32 MiB, or when `interval`, if there is one, has passed since the last one. What is worth much does not wait
    /// for a tick: with what comes in meanwhile, no more than 64 MiB or a second's worth are ever untold.
    package mutating func next(arrived: Int64, interval: Duration?, now: ContinuousClock.Instant = .now) -> Due? {
        let untold = arrived - bytes
        let isTime = interval.map { untold > 0 && now - last >= $0 } ?? false
        guard untold >= 32 << 20 || isTime else { return nil }
        previous = (bytes, last)
        (bytes, last) = (arrived, now)
        return untold >= 16 << 20 ? .urgent : .canWait
    }

    /// The checkpoint came to nothing, or told of the beginning alone: it is still due.
    package mutating func takeBack() {
        if let (bytes, last) = previous.take() { (self.bytes, self.last) = (bytes, last) }
    }
}
