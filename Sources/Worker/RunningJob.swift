import HaulActivities
import HaulBus
import HaulContract
import HaulRedis
import Synchronization

/// A claimed job while this worker runs it: the tasks of its activity and of its checkpoint. What happens to it is decided by values:
/// `RunPhase`, `RunNews`.
final class RunningJob: Sendable {
    typealias StopReason = RunPhase.StopReason

    private struct State {
        var phase = RunPhase.claimed
        var news: RunNews
        var activity: Task<ActivityOutcome, Never>?
        var isMarkedSent = false
    }

    let claim: Claim
    let job: Job
    let lease: Lease
    private let state: Mutex<State>
    private let checkpoints = Checkpoints()

    init(claim: Claim, job: Job, lease: Lease) {
        (self.claim, self.job, self.lease) = (claim, job, lease)
        state = Mutex(State(news: RunNews(resume: claim.resume, isAtWork: claim.wasLost)))
    }

    var run: Run { claim.run }

    // MARK: The activity

    /// Does the job; `stop` cancels it.
    func start(_ activity: any Activity) async -> ActivityOutcome {
        let task = Task(executorPreference: activity.executor) { await activity.run() }
        let action = state.withLock { state in
            state.activity = task
            return state.phase.begin()
        }
        if action == .cancel { task.cancel() }
        return await task.value
    }

    /// True if this reason counts from now on.
    @discardableResult
    func stop(_ reason: StopReason) -> Bool {
        let (result, task) = state.withLock { ($0.phase.stop(reason), $0.activity) }
        if result.action == .cancel { task?.cancel() }
        return result.isNew
    }

    /// By Redis' clock, as the claim told it: no command needs to be answered for it.
    func stopIfOverdue() {
        if let deadline = claim.deadline, deadline < claim.clock.milliseconds { stop(.deadline) }
    }

    var stopReason: StopReason? { state.withLock { $0.phase.stopReason } }

    // MARK: Checkpoints

    /// Tells where the partial file is as soon as there is one, so that whoever ends the job from then on knows what to unlink,
    /// and begins a checkpoint if one is due; without `interval` only bytes make it so. `hurry` asks for a tick. Returns what
    /// has begun. `took` is told how long a checkpoint was under way.
    func checkpointIfDue(
        _ activity: any Activity, interval: Duration?, took: @escaping @Sendable (Duration) -> Void,
        hurry: @escaping @Sendable () -> Void
    ) -> CheckpointPace.Due? {
        let known = state.withLock { $0.news.resume?.generation }
        return checkpoints.beginIfDue(of: activity, interval: interval, known: known) { place in
            if state.withLock({ $0.news.note(place: place, insteadOf: known) }) { hurry() }
            // A tick tells of it.
            return false
        } done: { point, due, duration in
            if let point {
                took(duration)
                self.state.withLock { $0.news.note(point) }
            }
            if due == .urgent { hurry() }
        }
    }

    /// The activity has ended. Waits for the checkpoint that is under way; there are no more after it.
    func endCheckpoints() async {
        state.withLock { $0.phase.end() }
        await checkpoints.end()
    }

    /// Redis may have been told that the request is sent.
    var isMarkedSent: Bool { state.withLock { $0.isMarkedSent } }

    func noteMarkedSent() { state.withLock { $0.isMarkedSent = true } }

    // MARK: What Redis is told

    func announce(_ event: Announcement) { state.withLock { $0.news.announce(event) } }

    func warn(_ message: String) { announce(Announcement("warning") { $0.set("message", message) }) }

    var newsSince: ContinuousClock.Instant? { state.withLock { $0.news.since } }

    var hasNews: Bool { state.withLock { $0.news.isAny } }

    func noteRequest() { state.withLock { $0.news.noteRequest() } }

    func note(_ resume: ResumePoint?) {
        if let resume { state.withLock { $0.news.note(resume) } }
    }

    func forgetBytes() { state.withLock { $0.news.forgetBytes() } }

    /// Whether there is something to go on from that Redis may have been told.
    var hasResume: Bool { state.withLock { $0.news.resume != nil } }

    func isProgressDue(at now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { $0.news.isProgressDue(at: now) }
    }

    func note(isWaiting: Bool) -> Bool { state.withLock { $0.news.note(isWaiting: isWaiting) } }

    func note(isAtWork: Bool) -> Bool { state.withLock { $0.news.note(isAtWork: isAtWork) } }

    func takeReport() -> RunReport { state.withLock { $0.news.take() } }

    func putBack(_ report: RunReport) { state.withLock { $0.news.putBack(report) } }
}
