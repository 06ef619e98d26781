import HaulActivities
import HaulBus
import HaulContract
import HaulRedis
import Synchronization

/// A claimed job while this worker runs it, with the tasks of its activity and its checkpoints. `RunPhase` and
/// `RunNews`, which are values, make the decisions.
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
    /// When the run has taken as long as the operator allows.
    private let end: ContinuousClock.Instant?
    private let state: Mutex<State>
    private let checkpoints = Checkpoints()

    init(claim: Claim, job: Job, lease: Lease) {
        (self.claim, self.job, self.lease) = (claim, job, lease)
        end = claim.limits.maxSeconds.map { .now + .seconds($0) }
        state = Mutex(State(news: RunNews(resume: claim.resume, isActive: claim.wasLost)))
    }

    var run: Run { claim.run }

    // MARK: The activity

    /// Runs the activity. `stop` cancels it.
    func start(_ activity: any Activity) async -> ActivityOutcome {
        let task = Task(executorPreference: activity.executor) { await activity.run() }
        let action = state.withLock { state in
            state.activity = task
            return state.phase.begin()
        }
        if action == .cancel { task.cancel() }
        return await task.value
    }

    /// Stops the run. True if this reason counts from now on.
    @discardableResult
    func stop(_ reason: StopReason) -> Bool {
        let (result, task) = state.withLock { ($0.phase.stop(reason), $0.activity) }
        if result.action == .cancel { task?.cancel() }
        return result.isNew
    }

    /// Stops the run if the job's deadline has passed, by Redis' clock as of the claim, or the time that the operator
    /// gives a run. Redis is not asked.
    func stopIfOverdue() {
        if let end, end < .now { stop(.timeLimit) }
        if let deadline = claim.deadline, deadline < claim.clock.milliseconds { stop(.deadline) }
    }

    var stopReason: StopReason? { state.withLock { $0.phase.stopReason } }

    // MARK: Checkpoints

    /// Begins a checkpoint if one is due; without `interval` only bytes make one due. Also records the location of a
    /// new partial file, so that a worker that ends the job later knows what to remove. Returns what was due.
    ///
    /// - Parameters:
    ///   - took: Called with the time that a checkpoint took.
    ///   - hurry: Requests a tick.
    func checkpointIfDue(
        _ activity: any Activity, interval: Duration?, took: @escaping @Sendable (Duration) -> Void,
        hurry: @escaping @Sendable () -> Void
    ) -> CheckpointSchedule.Due? {
        let known = state.withLock { $0.news.resume?.generation }
        return checkpoints.beginIfDue(of: activity, interval: interval, known: known) { place in
            if state.withLock({ $0.news.record(location: place, insteadOf: known) }) { hurry() }
            // The next tick reports the place.
            return false
        } done: { point, due, duration in
            if let point {
                took(duration)
                self.state.withLock { $0.news.record(point) }
            }
            if due == .urgent { hurry() }
        }
    }

    /// The activity has ended. Waits for the checkpoint in progress; none begins after it.
    func endCheckpoints() async {
        state.withLock { $0.phase.end() }
        await checkpoints.end()
    }

    /// Redis may have recorded that the request is sent.
    var isMarkedSent: Bool { state.withLock { $0.isMarkedSent } }

    func recordMarkedSent() { state.withLock { $0.isMarkedSent = true } }

    // MARK: Reports to Redis

    func announce(_ event: Announcement) { state.withLock { $0.news.announce(event) } }

    func warn(_ message: String) { announce(Announcement("warning") { $0.set("message", message) }) }

    var newsSince: ContinuousClock.Instant? { state.withLock { $0.news.since } }

    var hasNews: Bool { state.withLock { $0.news.isAny } }

    func markControlPending() { state.withLock { $0.news.markControlPending() } }

    func record(_ resume: ResumePoint?) {
        if let resume { state.withLock { $0.news.record(resume) } }
    }

    func forgetBytes() { state.withLock { $0.news.forgetBytes() } }

    /// Whether there is a resume point, which Redis may know.
    var hasResume: Bool { state.withLock { $0.news.resume != nil } }

    func isProgressDue(at now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { $0.news.isProgressDue(at: now) }
    }

    func record(isWaiting: Bool) -> Bool { state.withLock { $0.news.record(isWaiting: isWaiting) } }

    func record(isActive: Bool) -> Bool { state.withLock { $0.news.record(isActive: isActive) } }

    func takeReport() -> RunReport { state.withLock { $0.news.take() } }

    func putBack(_ report: RunReport) { state.withLock { $0.news.putBack(report) } }
}
