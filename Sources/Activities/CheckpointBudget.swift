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
