/// The checkpoints that one look at `runs` runs may begin because it is time for them.
package struct CheckpointTurns: Sendable {
    private let pause: Duration
    private var left = 128

    package init(runs: Int) { pause = max(.seconds(1), .milliseconds(10) * runs) }

    /// For the next run: how long after its last checkpoint one is due; nil when all turns are taken.
    package var interval: Duration? { left > 0 ? pause : nil }

    /// Fast runs come by their bytes, however often, and take no turn from slow ones.
    package mutating func note(_ due: CheckpointPace.Due?) { if due == .canWait { left -= 1 } }
}
