import HaulBus
import HaulContract

/// What was done to a job, and therefore what its state must be.
struct ExpectedJob {
    /// An operation, and when it was made.
    struct Operation: Equatable {
        var kind: ControlOperation
        var timestamp: Int64
        /// Whether the operation has a time.
        var isTimed = true

        /// The state of a job that this operation stops; nil if the operation forgets the job.
        var stoppedState: JobState? { kind == .paused ? .paused : kind.forgets ? nil : .cancelled }
    }

    /// The producer's last element, which is pushed again and again.
    var element: String
    /// Whether the job's pushes and operations have times, so that the result of each is certain. Of other jobs only
    /// the changes of state are checked.
    var isTimed: Bool
    /// The job kills each worker that runs it.
    var isPoison = false
    /// When the newest push or operation was made that must still start a run; nil if there is none.
    var pendingSince: Int64?
    /// When the job was pushed last.
    var lastPush: Int64 = 0
    /// The operation that no call has applied yet.
    var pendingOperation: Operation?
    /// The applied operation that waits for the run to receive it, or for an older push to arrive: the field `want`.
    var want: Operation?
    /// The pause behind a cancel that the run has not received: the field `want_next`.
    var wantNext: Operation?
    /// The timestamp until which everything is settled. An older operation has no effect.
    var settled: Int64 = 0
    /// What the end of a run settled, which counts only while the job is known: the newest push or operation until
    /// then, until when it settled pushes, and what had been settled before.
    var end: (newest: Int64, until: Int64, before: Int64)?
    /// Until when the last end of a run settled pushes.
    var lastEnd: Int64 = 0
    /// A push that the end of a run had settled may be done after all, since an older removal made the job forget that
    /// end.
    var mayRunAgain = false
    /// When the run's lease ends.
    var lease: Int64 = 0
    /// Whether the worker's hash names the run.
    var isInWorkerHash = true
    /// The token of the run that was reported as at work.
    var activeToken: String?
    /// Runs at work that were lost in a row without a checkpoint.
    var losses = 0
    /// Failed attempts since the job restarted.
    var attempts = 0
    /// The bytes of the last checkpoint.
    var checkpoint = ByteIntervals()
    var deadlines: Set<Int64> = []
    /// How long after a push, or after a retry, its deadlines are: ms.
    var periods: Set<Int64> = []
    /// The reply lists that its pushes have named.
    var replyLists: Set<String> = []
    /// When the hash expires; nil if it does not.
    var expiry: Int64?
    var facts = Facts()

    /// What stands for the element of a webhook, and of the run of a schedule. It has no `at`, but no user pushes it again
    /// or stops it.
    static let internalElement = "internal"
    var isInternal: Bool { element == Self.internalElement }

    init(element: String, isTimed: Bool) { (self.element, self.isTimed) = (element, isTimed) }

    /// Forgets the job. With a `tombstone`, what was settled stays known for an hour. Without one, any old push may restart
    /// the job, unless something still has to be done.
    mutating func forget(tombstone now: Int64?) {
        if pendingSince == nil, now == nil { isTimed = false }
        (want, wantNext, checkpoint) = (nil, nil, ByteIntervals())
        if now == nil { settled = 0 }
        expiry = now.map { $0 + 3_600_000 }
        restart()
    }

    /// Forgets the job by an operation.
    mutating func forget(by operation: Operation, _ now: Int64) {
        if let end, end.until == settled {
            settled = end.before
            mayRunAgain = end.newest > operation.timestamp
        }
        // Pushes before the operation are settled, whatever has settled older ones.
        settled = max(settled, operation.timestamp)
        end = nil
        forget(tombstone: now)
    }

    /// Whether a continuation makes sense: the job is paused, or a pause was requested last.
    var mayBeContinued: Bool {
        guard isTimed else { return false }
        return switch facts.state {
        case .paused: pendingOperation == nil
        case .running: (pendingOperation ?? want)?.kind == .paused && (pendingOperation == nil || want == nil)
        default: false
        }
    }

    mutating func restart() { (losses, attempts) = (0, 0) }
}

extension ControlOperation {
    var forgets: Bool { self == .removed || self == .deleted }
}
