import Bus
import Contract

/// What was done to a job, and so what may become of it.
struct Story {
    /// A request, and when it was made.
    struct Stop: Equatable {
        let request: Request
        let moment: Int64

        /// Where it puts a job that it stops; nil: it forgets it.
        var stops: JobState? { request == .paused ? .paused : request.forgets ? nil : .cancelled }
    }

    /// The producer's last element; it is pushed again and again.
    var element: String
    /// Its pushes and requests carry their time, so that it can be said what must come of each. The others are judged only
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
    /// The request that waits for its run to hear of it, or for its job to come.
    var taken: Stop?
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
    /// When the hash goes.
    var expiry: Int64?
    var facts = Facts()

    init(element: String, isTimed: Bool) { (self.element, self.isTimed) = (element, isTimed) }

    /// The job is forgotten, and so is what was settled: unless something is still to be done, any old push may do it anew.
    mutating func forget() {
        if demand == nil { isTimed = false }
        (taken, expiry, checkpoint) = (nil, nil, ByteIntervals())
        beginAnew()
    }

    mutating func beginAnew() { (losses, attempts) = (0, 0) }
}

extension Request {
    var forgets: Bool { self == .removed || self == .deleted }
}
