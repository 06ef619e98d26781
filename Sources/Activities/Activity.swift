package import HaulContract
package import HaulStorage

/// One run of one job: the protocol between the worker and the kinds of jobs. Each kind has one implementation.
///
/// An activity knows HTTP and a store, but not Redis. The worker passes its events and progress on to Redis.
package protocol Activity: AnyObject, Sendable {
    /// The executor that `run()` prefers. It saves most switches between threads.
    var executor: any TaskExecutor { get }

    /// Runs to the end. Cancelling the task stops the run, and keeps what another run can continue.
    func run() async -> ActivityOutcome

    // MARK: Called from other threads, while it runs

    func progress() -> ActivityProgress

    /// Bytes that this run has received or sent so far, repeated ones included.
    var transferred: Int64 { get }

    /// Whether `transferred` counts what is sent, not what is received.
    var isSending: Bool { get }

    /// Whether the run has waited for a connection to its host for a second or longer.
    var isWaitingForHost: Bool { get }

    /// False while the run only waits for a connection to its host.
    var isActive: Bool { get }

    /// Makes the progress so far durable and returns where another worker can continue. nil if nothing is new.
    func checkpoint() async -> ResumePoint?

    /// The last checkpoint did not cover all received bytes, so another checkpoint is due.
    var hasMoreToReport: Bool { get }

    /// The location of the partial file, or of the upload at a server, as a resume point that need not name durable
    /// bytes. nil if there is none yet, or if its generation is `generation`.
    func location(otherThan generation: String?) -> ResumePoint?

    /// The run does something that cannot be repeated, so it should not be interrupted while there is time left.
    var mustNotBeInterrupted: Bool { get }

    // MARK: After a run

    /// The server's response to a request that failed.
    var response: StoredResponse? { get }

    /// Whether the job can be attempted again after a failure without doing harm.
    var isRepeatable: Bool { get }

    /// Whether this run has made so much progress that the next attempt does not count as a retry.
    var hasMadeProgress: Bool { get }

    /// The last checkpoint of a run that ended before its job was done.
    func finalCheckpoint() async -> ResumePoint?

    /// The location of the partial file that this run has opened, or that an earlier run has left. nil if there is
    /// none.
    var partialLocation: PartialLocation? { get }

    /// Removes everything that only a later run would need, because the job is cancelled or `completed` is settled.
    ///
    /// - Parameter soon: The removal may be deferred until it costs less. The call does not wait for it.
    func discard(soon: Bool) async

    /// The same, but only if no later run can ever continue. Returns true if everything is removed.
    func discardUseless() async -> Bool
}

// The defaults, for an activity that keeps no file.
extension Activity {
    package var isSending: Bool { false }
    package var mustNotBeInterrupted: Bool { false }
    package var response: StoredResponse? { nil }
    package var hasMadeProgress: Bool { false }
    package var hasMoreToReport: Bool { false }
    package var partialLocation: PartialLocation? { nil }
    package func checkpoint() async -> ResumePoint? { nil }
    package func location(otherThan generation: String?) -> ResumePoint? { nil }
    package func finalCheckpoint() async -> ResumePoint? { nil }
    package func discard(soon: Bool) async {}
    package func discardUseless() async -> Bool { false }
}

/// What an activity reports while it runs.
package enum ActivityEvent: Sendable {
    /// The server has responded. `total` is in bytes.
    case started(total: Int64?, resumable: Bool)
    /// The run continues: `offset` bytes are there already.
    case resumed(offset: Int64, total: Int64?)
    /// The bytes so far are dropped.
    case restarted(why: String)
    case warning(String)
}

/// How a run ended.
package enum ActivityOutcome: Sendable {
    case completed(CompletedFile, seconds: Double, unchanged: Bool)
    /// The job is done, and the server's response is its result.
    case responded(StoredResponse, seconds: Double, unchanged: Bool)
    case failed(Failure)
    /// The store can take no jobs at present. The string is the member `why` of the event `waiting`.
    case parked(String)
    /// The run was cancelled before its end.
    case stopped
    /// The lease is lost: another run has the job.
    case fenced
}

/// The progress of a run.
package struct ActivityProgress: Sendable {
    package var received: Int64 = 0
    package var total: Int64?
    /// Bytes per second over the last 5 s.
    package var speed: Int64 = 0
    /// Bytes per second over this attempt. Bytes of earlier attempts do not count.
    package var average: Int64 = 0
    package var connections = 0

    package init() {}

    /// Seconds left at the present speed. nil if the total or the speed is unknown.
    package var eta: Int64? {
        guard let total, speed > 0 else { return nil }
        return max(0, total - received) / speed
    }
}
