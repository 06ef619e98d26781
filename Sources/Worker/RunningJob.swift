import HaulActivities
import HaulBus
import HaulContract
import HaulRedis
import Synchronization

/// A claimed job while this worker runs it: its activity, its lease, and what is to be told with the next tick.
final class RunningJob: Sendable {
    private struct State {
        var resume: ResumePoint?
        var isResumeNew = false
        /// A request is said to wait for it.
        var isAskedFor = false
        var events: [Announcement] = []
        var newsSince = ContinuousClock.now
        var stop: StopReason?
        var task: Task<ActivityOutcome, Never>?
        var checkpoint: Task<Void, Never>?
        var pace = CheckpointPace()
        var hasEnded = false
        var progressed = ContinuousClock.now
        /// What Redis was told of a wait for the host.
        var isToldToWait = false
        /// Whether Redis was told that it is at work.
        var isToldToWork = false
    }

    /// Why a run ends before its activity does.
    enum StopReason: Sendable, Equatable {
        case paused, cancelled, shutdown, deadline
        /// The lease is another's: nothing is settled, nothing is touched.
        case fenced
    }

    let claim: Claim
    let job: Job
    let lease: Lease
    private let state = Mutex(State())

    init(claim: Claim, job: Job, lease: Lease) {
        (self.claim, self.job, self.lease) = (claim, job, lease)
        state.withLock { ($0.resume, $0.isToldToWork) = (claim.resume, claim.wasLost) }
    }

    var run: Run { claim.run }

    /// Starts the activity; `stop` cancels it.
    func start(_ activity: any Activity) async -> ActivityOutcome {
        let task = Task(executorPreference: activity.executor) { await activity.run() }
        let isStopped = state.withLock { state in
            state.task = task
            return state.stop != nil
        }
        if isStopped { task.cancel() }
        return await task.value
    }

    /// The first reason counts, but being fenced overrules everything. True if this one is new.
    @discardableResult
    func stop(_ reason: StopReason) -> Bool {
        let (isNew, task) = state.withLock { state in
            let isNew = state.stop == nil || reason == .fenced && state.stop != .fenced
            if isNew { state.stop = reason }
            return (isNew, state.task)
        }
        task?.cancel()
        return isNew
    }

    /// By Redis' clock, as the claim told it: no command needs to be answered for it.
    func stopIfOverdue() {
        if let deadline = claim.deadline, deadline < claim.clock.milliseconds { stop(.deadline) }
    }

    var stopReason: StopReason? { state.withLock { $0.stop } }

    func announce(_ event: Announcement) {
        state.withLock { state in
            if state.events.isEmpty { state.newsSince = .now }
            state.events.append(event)
        }
    }

    func warn(_ message: String) { announce(Announcement("warning") { $0.set("message", message) }) }

    /// Since when there is something to tell; nil if there is nothing.
    var newsSince: ContinuousClock.Instant? { state.withLock { $0.events.isEmpty ? nil : $0.newsSince } }

    /// Whether the next tick is for it, be that one hurried.
    var hasNews: Bool { state.withLock { !$0.events.isEmpty || $0.isResumeNew || $0.isAskedFor } }

    /// A message said that a request waits for it: the next tick brings it.
    func noteRequest() { state.withLock { $0.isAskedFor = true } }

    func note(_ resume: ResumePoint?) {
        guard let resume else { return }
        state.withLock { state in
            state.resume = resume
            state.isResumeNew = true
        }
    }

    /// What Redis may have been told of is gone.
    func forgetBytes() {
        state.withLock { state in
            guard let resume = state.resume else { return }
            state.resume?.offsets = ByteIntervals()
            state.resume?.blockChecks = [:]
            state.isResumeNew = state.isResumeNew || !resume.offsets.isEmpty
        }
    }

    /// Tells where the partial file is as soon as there is one, so that whoever ends the job from then on knows what to unlink,
    /// and begins a checkpoint if one is due; without `interval` only bytes make it so. `hurry` asks for a tick. Returns what
    /// has begun.
    func checkpointIfDue(
        _ activity: any Activity, interval: Duration?, hurry: @escaping @Sendable () -> Void
    ) -> CheckpointPace.Due? {
        let moved = activity.moved
        let known = state.withLock { $0.resume?.generation }
        let place = activity.place(otherThan: known)
        return state.withLock { state in
            guard state.checkpoint == nil, !state.hasEnded else { return nil }
            if let place, state.resume?.generation == known {
                (state.resume, state.isResumeNew) = (place, true)
                hurry()
            }
            guard let due = state.pace.next(arrived: moved, interval: interval) else { return nil }
            state.checkpoint = Task(executorPreference: activity.executor) {
                let point = await activity.checkpoint()
                self.note(point)
                self.state.withLock { state in
                    if point == nil { state.pace.takeBack() }
                    state.checkpoint = nil
                }
                if due == .urgent { hurry() }
            }
            return due
        }
    }

    /// Whether there is something to go on from that Redis may have been told.
    var hasResume: Bool { state.withLock { $0.resume != nil } }

    /// Waits for the checkpoint that is under way; there are no more after it.
    func endCheckpoints() async {
        let checkpoint = state.withLock { state in
            state.hasEnded = true
            return state.checkpoint
        }
        await checkpoint?.value
    }

    /// Whether a progress event is due: one a second, however often the queue is ticked.
    func isProgressDue(at now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { state in
            guard now - state.progressed >= .milliseconds(900) else { return false }
            state.progressed = now
            return true
        }
    }

    /// Whether `isWaiting` is news.
    func noteWait(_ isWaiting: Bool) -> Bool {
        state.withLock { state in
            defer { state.isToldToWait = isWaiting }
            return isWaiting != state.isToldToWait
        }
    }

    /// Whether `isAtWork` is news.
    func noteWork(_ isAtWork: Bool) -> Bool {
        state.withLock { state in
            defer { state.isToldToWork = isAtWork }
            return isAtWork != state.isToldToWork
        }
    }

    /// What there is to tell, taken out. `putBack` undoes it when the tick failed.
    func takeReport() -> RunReport {
        state.withLock { state in
            var report = RunReport()
            if state.isResumeNew, let resume = state.resume { report.set(resume) }
            state.isResumeNew = false
            report.events = state.events
            state.events = []
            state.isAskedFor = false
            return report
        }
    }

    func putBack(_ report: RunReport) {
        state.withLock { state in
            if report.offsets != nil { state.isResumeNew = true }
            if report.tellsOfWait { state.isToldToWait.toggle() }
            if report.tellsOfWork { state.isToldToWork.toggle() }
            // Progress and waits are of the moment; the other events must not be lost.
            state.events = report.events.filter { !["progress", "waiting"].contains($0.name) } + state.events
        }
    }
}
