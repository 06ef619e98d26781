package import HaulContract
package import HaulStorage

/// One attempt at one job. Each kind of job has one implementation: docs/contributing/map.md.
///
/// An activity knows HTTP and a store, but not Redis. It speaks to whoever started it only through its `RunIO`, which
/// it gets when it is made.
package protocol Activity: AnyObject, Sendable {
    /// The executor that `run()` prefers. It saves most switches between threads.
    var executor: any TaskExecutor { get }

    /// Runs to the end. Cancelling the task stops the run, and keeps what another run can continue.
    func run() async -> ActivityResult

    // MARK: Called from other threads, while it runs

    /// Makes the progress so far durable and returns where another worker can continue. `point` is nil if nothing is
    /// new. `isPartial` says that not all received bytes are covered, so that another checkpoint is due.
    func checkpoint() async -> (point: ResumePoint?, isPartial: Bool)

    func progress() -> ActivityProgress

    /// The run does something that cannot be repeated, so it should not be interrupted while there is time left.
    var mustNotBeInterrupted: Bool { get }
}

// The defaults, for an activity that keeps nothing and may be repeated.
extension Activity {
    package var mustNotBeInterrupted: Bool { false }
    package func checkpoint() async -> (point: ResumePoint?, isPartial: Bool) { (nil, false) }
}

/// What an attempt leaves.
package struct ActivityResult: Sendable {
    package let outcome: ActivityOutcome
    package let progress: ActivityProgress
    /// The server's response to a request that failed.
    package var response: StoredResponse?
    /// Whether the job can be attempted again after a failure without doing harm.
    package var isRepeatable = true
    /// Whether this run has made so much progress that the next attempt does not count as a retry.
    package var hasMadeProgress = false
    /// nil if the activity keeps nothing.
    package var remainder: (any RunRemainder)?

    package init(_ outcome: ActivityOutcome, _ progress: ActivityProgress) {
        (self.outcome, self.progress) = (outcome, progress)
    }
}

/// What an attempt leaves in the store or at a server, for later attempts.
package protocol RunRemainder: Sendable {
    /// The location of the partial file that this run has opened, or that an earlier run has left. nil if there is
    /// none.
    var partialLocation: PartialLocation? { get }

    /// The last checkpoint of a run that ended before its job was done.
    func finalCheckpoint() async -> ResumePoint?

    /// Removes everything if no later run can ever continue. Returns true if everything is removed.
    func discardUseless() async -> Bool

    /// Removes everything that only a later run would need, because the job is cancelled or `completed` is settled.
    ///
    /// - Parameter soon: The removal may be deferred until it costs less. The call does not wait for it.
    func discard(soon: Bool) async
}

extension RunRemainder {
    package var partialLocation: PartialLocation? { nil }
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
    /// Bytes that this run has received or sent so far, repeated ones included.
    package var transferred: Int64 = 0
    /// Whether `transferred` counts what is sent, not what is received.
    package var isSending = false

    package init() {}

    /// Seconds left at the present speed. nil if the total or the speed is unknown.
    package var eta: Int64? {
        guard let total, speed > 0 else { return nil }
        return max(0, total - received) / speed
    }
}

/// How to make the activity of each kind of job.
package struct Activities: Sendable {
    /// Makes the activity of one run, without starting it.
    package typealias Maker = @Sendable (Assignment, RunIO) -> any Activity

    private let makers: [Job.Kind: Maker]

    package init(_ makers: [Job.Kind: Maker]) { self.makers = makers }

    /// The names of the kinds, sorted and separated by spaces.
    package var kinds: String { makers.keys.map(\.rawValue).sorted().joined(separator: " ") }

    /// Makes an activity, which has not started yet. nil for a kind that is not in the table.
    package func make(_ assignment: Assignment, _ io: RunIO) -> (any Activity)? {
        makers[assignment.job.kind]?(assignment, io)
    }
}
