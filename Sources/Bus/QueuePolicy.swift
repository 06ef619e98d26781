import HaulContract

/// How long a queue waits, and keeps. All workers of a queue should agree on it.
package struct QueuePolicy: Sendable {
    /// A worker that has not ticked for this long is lost, and its jobs run again elsewhere; 2 s at least.
    package var lease: Duration = .seconds(8)
    package var keepCompleted: Duration = .seconds(24 * 3600)
    package var keepFailed: Duration = .seconds(7 * 24 * 3600)
    package var keepCancelled: Duration = .seconds(24 * 3600)
    /// A job that was lost with its worker while it was at work more often than this, without a checkpoint in between, fails as `crash_loop`.
    package var crashLimit = 5

    package init() {}

    var retention: [Int] { [keepCompleted, keepFailed, keepCancelled].map(\.milliseconds) }
}
