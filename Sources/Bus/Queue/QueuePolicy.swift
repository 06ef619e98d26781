import HaulContract

/// The lease of workers, and how long a queue keeps jobs. All workers of a queue should have the same policy.
package struct QueuePolicy: Sendable {
    /// A worker that does not tick for this long is lost, and its jobs run elsewhere. 2 s or more.
    package var lease: Duration = .seconds(8)
    /// How long ended jobs are kept, unless the queue's settings say otherwise.
    package var keepCompleted: Duration = .seconds(24 * 3600)
    package var keepFailed: Duration = .seconds(7 * 24 * 3600)
    package var keepCancelled: Duration = .seconds(24 * 3600)
    /// How many crashes of a worker a job may be part of, without a checkpoint in between. After one more it fails as
    /// `crash_loop`.
    package var crashLimit = 5

    package init() {}

    var retention: [Int] { [keepCompleted, keepFailed, keepCancelled].map(\.milliseconds) }
}
