package import HaulContract
package import HaulStorage

/// What is done for one kind of job: the seam between the worker and the kinds.
///
/// An activity is one run of one job. It knows HTTP and a store, and nothing of Redis: the worker tells Redis what it says.
package protocol Activity: AnyObject, Sendable {
    /// The thread for `run()`, which saves it most of its ways to others.
    var executor: any TaskExecutor { get }

    /// Runs to an end. Cancelling the task stops it, and leaves what another run can go on from.
    func run() async -> ActivityOutcome

    // MARK: From other threads, while it runs

    func progress() -> ActivityProgress

    /// Bytes that this run has moved.
    var moved: Int64 { get }

    /// Whether it has waited for its host's turn for a second or longer.
    var isWaitingForHost: Bool { get }

    /// Whether it does more than wait for its host's turn.
    var isAtWork: Bool { get }

    /// Makes what has come durable and returns where another worker may go on; nil if there is nothing new.
    func checkpoint() async -> ResumePoint?

    /// The last checkpoint did not wait for all that had come: another one is due.
    var hasMoreToTell: Bool { get }

    /// Where its partial file is, with nothing in it that is durable; nil if there is none yet, or it is of this generation.
    func place(otherThan generation: String?) -> ResumePoint?

    /// What it does cannot be done once more: while there is time it is better not interrupted.
    var mustGoOn: Bool { get }

    // MARK: After a run

    /// What a server answered to a request that failed.
    var response: StoredResponse? { get }

    /// Whether the same may be done once more after a failure.
    var isRepeatable: Bool { get }

    /// Whether this run has come so far that an attempt after it costs no retry.
    var hasMadeHeadway: Bool { get }

    /// The last checkpoint of a run that was stopped.
    func finalCheckpoint() async -> ResumePoint?

    /// Where its partial file is, once it is opened, or was left by an earlier run.
    var partialPlace: PartialPlace? { get }

    /// Removes what only a run that goes on would need: the job was cancelled, or `completed` is settled. `soon` is when it
    /// costs less, and is not waited for.
    func discard(soon: Bool) async

    /// The same if no run can ever go on from it; true if nothing of it is left.
    func discardUseless() async -> Bool
}

// What an activity has that keeps no file.
extension Activity {
    package var mustGoOn: Bool { false }
    package var response: StoredResponse? { nil }
    package var hasMadeHeadway: Bool { false }
    package var hasMoreToTell: Bool { false }
    package var partialPlace: PartialPlace? { nil }
    package func checkpoint() async -> ResumePoint? { nil }
    package func place(otherThan generation: String?) -> ResumePoint? { nil }
    package func finalCheckpoint() async -> ResumePoint? { nil }
    package func discard(soon: Bool) async {}
    package func discardUseless() async -> Bool { false }
}

/// What an activity tells while it runs.
package enum ActivityEvent: Sendable {
    case started(total: Int64?, resumable: Bool)
    case resumed(offset: Int64, total: Int64?)
    case restarted(why: String)
    case warning(String)
}

/// How a run ended.
package enum ActivityOutcome: Sendable {
    case completed(CompletedFile, seconds: Double, unchanged: Bool)
    /// By a server's answer, which is kept.
    case answered(StoredResponse, seconds: Double, unchanged: Bool)
    case failed(Failure)
    /// The store can do no job now; the reason is for `waiting`.
    case parked(String)
    /// The task was cancelled.
    case stopped
    /// The lease is lost: another worker has the job.
    case fenced
}

/// How far a run is.
package struct ActivityProgress: Sendable {
    package var received: Int64 = 0
    package var total: Int64?
    /// Bytes per second over the last 5 s.
    package var speed: Int64 = 0
    /// Bytes per second over this attempt, without what was there before it.
    package var average: Int64 = 0
    package var connections = 0

    package init() {}

    /// Seconds that are left at this speed; nil if that cannot be told.
    package var eta: Int64? {
        guard let total, speed > 0 else { return nil }
        return max(0, total - received) / speed
    }
}
