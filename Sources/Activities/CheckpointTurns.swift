/// Bounds how many checkpoints one pass over `runs` runs begins only because time has passed.
package struct CheckpointTurns: Sendable {
    private let pause: Duration
    private var left = 128

    package init(runs: Int) { pause = max(.seconds(1), .milliseconds(10) * runs) }

    /// For the next run: how long after its last checkpoint one is due. nil when all turns of this pass are taken.
    package var interval: Duration? { left > 0 ? pause : nil }

    /// An urgent checkpoint takes no turn, however often it comes, so that fast runs do not displace slow ones.
    package mutating func record(_ due: CheckpointPace.Due?) { if due == .canWait { left -= 1 } }
}
