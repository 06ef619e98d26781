import HaulBus
import HaulContract

/// What was done to a job, and so what may become of it.
struct Story {
    /// A request, and when it was made.
    struct Stop: Equatable {
        var request: Request
        var moment: Int64
        /// It says when it was made.
        var isTimed = true

        /// Where it puts a job that it stops; nil: it forgets it.
        var stops: JobState? { request == .paused ? .paused : request.forgets ? nil : .cancelled }
    }

    /// The producer's last element; it is pushed again and again.
    var element: String
    /// Its pushes and requests carry their time, so that it can be said what must come of each. The others are checked only
    /// by where they may go from where they are.
    var isTimed: Bool
    /// It kills each worker that runs it.
    var isPoison = false
    /// When what is still to be done was asked for.
    var demand: Int64?
    /// When it was pushed last.
    var pushed: Int64 = 0
    /// The request that waits for a tick.
    var asked: Stop?
    /// The request that waits for its run to hear of it, or for a push that it is newer than.
    var taken: Stop?
    /// The pause that came behind a cancel which its run has not heard of.
    var behind: Stop?
    /// When it was settled last: a request of before it asks for nothing.
    var settled: Int64 = 0
    /// What the end of a run settled, which counts only as long as the job is known: what was asked for until then, when that was,
    /// and what had been settled before.
    var end: (asked: Int64, at: Int64, before: Int64)?
    /// When a run ended last.
    var lastEnd: Int64 = 0
    /// A push that an end had settled may be done after all: a request of before it made the job forget that end.
    var mayRunAgain = false
    /// When the run's lease ends.
    var lease: Int64 = 0
    /// The worker's hash names the run.
    var isNoted = true
    /// The run of which its worker has told that it is at work.
    var begun: String?
    /// Runs at work that were lost in a row without a checkpoint.
    var losses = 0
    /// Failed attempts since it was begun anew.
    var attempts = 0
    /// The bytes of the last checkpoint.
    var checkpoint = ByteIntervals()
    var deadlines: Set<Int64> = []
    /// The reply lists that its pushes have named.
    var names: Set<String> = []
    /// When the hash goes.
    var expiry: Int64?
    var facts = Facts()

    init(element: String, isTimed: Bool) { (self.element, self.isTimed) = (element, isTimed) }

    /// The job is forgotten. For an hour a stub tells what was settled; then, unless something is still to be done, any old
    /// push may do it anew.
    mutating func forget(stub now: Int64?) {
        if demand == nil, now == nil { isTimed = false }
        (taken, behind, checkpoint) = (nil, nil, ByteIntervals())
        if now == nil { settled = 0 }
        expiry = now.map { $0 + 3_600_000 }
        beginAnew()
    }

    /// A request forgets the job.
    mutating func forget(by stop: Stop, _ now: Int64) {
        if let end, end.at == settled {
            settled = max(end.before, stop.moment)
            mayRunAgain = end.asked > stop.moment
        }
        end = nil
        forget(stub: now)
    }

    /// A continuation makes sense: the job is paused, or a pause is the last that was asked for.
    var mayBeContinued: Bool {
        guard isTimed else { return false }
        return switch facts.state {
        case .paused: asked == nil
        case .running: (asked ?? taken)?.request == .paused && (asked == nil || taken == nil)
        default: false
        }
    }

    mutating func beginAnew() { (losses, attempts) = (0, 0) }
}

extension Request {
    var forgets: Bool { self == .removed || self == .deleted }
}
