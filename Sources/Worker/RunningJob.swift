import HaulActivities
import HaulBus
import HaulContract
import HaulMetrics
import HaulRedis
import HaulStorage
import Synchronization

/// A claimed job while this worker runs it, and what Redis does not know about it yet. `Attempt` runs its activity.
final class RunningJob: RunHost {
    let claim: Claim
    let job: Job
    let lease: Lease
    let attempt = Attempt()
    private let queueServer: QueueServer
    /// When the run has taken as long as the operator allows.
    private let end: ContinuousClock.Instant?
    private let pendingReport: Mutex<PendingReport>

    init(claim: Claim, job: Job, lease: Lease, _ queueServer: QueueServer) {
        (self.claim, self.job, self.lease, self.queueServer) = (claim, job, lease, queueServer)
        end = claim.limits.maxSeconds.map { .now + .seconds($0) }
        pendingReport = Mutex(PendingReport(resume: claim.resume, isActive: claim.wasLost))
    }

    var run: Run { claim.run }

    /// Stops the run if the job's deadline has passed, by Redis' clock as of the claim, or the time that the operator
    /// gives a run. Redis is not asked.
    func stopIfOverdue() {
        if let end, end < .now { attempt.stop(.timeLimit) }
        if let deadline = claim.deadline, deadline < claim.clock.milliseconds { attempt.stop(.deadline) }
    }

    // MARK: What the activity may ask and report

    var runLease: RunLease {
        RunLease(
            isHeld: { self.attempt.stopReason != .fenced && self.lease.isHeld() && self.queueServer.isSeen() },
            confirm: { await self.mayCommit() }, writePermit: { self.lease.writePermit })
    }

    private func mayCommit() async -> Bool {
        while attempt.stopReason != .fenced, !queueServer.grace.hasEnded {
            if lease.isHeld(), queueServer.isSeen() { return true }
            // By our own clock another worker may have the job, so ask Redis before the file gets its name.
            await queueServer.tick([], .operations, of: [self])
        }
        return false
    }

    func report(_ event: ActivityEvent) {
        queueServer.queueLog.log(event, of: claim, job)
        announce(
            Announcement(event.name) { object in
                if case .started = event { object.set("attempt", claim.attempt + 1) }
                event.write(to: &object)
            })
        queueServer.ticks.requestEarlyTickSoon()
    }

    func record(_ point: ResumePoint, isUrgent: Bool, duration: Duration?) async {
        if let duration { queueServer.metrics.checkpoints.record(duration) }
        record(point)
        if isUrgent { queueServer.ticks.requestEarlyTick() }
    }

    /// Only the loss of a worker that was active counts against a job that was lost before, so it is reported at once.
    func activityChanged() async { if claim.wasLost { await queueServer.report(self) } }

    /// Tries again until Redis answers. The call is idempotent.
    func markSent() async -> Bool {
        pendingReport.withLock { $0.isMarkedSent = true }
        while attempt.stopReason == nil, !queueServer.grace.hasEnded {
            if let isOurs = await queueServer.reportSent(self) { return isOurs && attempt.stopReason == nil }
        }
        return false
    }

    func recordCommit(duration: Duration) { queueServer.metrics.commits.record(duration) }

    func recordGate(_ verdict: Gate.Verdict, duration: Duration) {
        queueServer.metrics.judged(verdict.name, duration: duration)
    }

    // MARK: Reports to Redis

    func announce(_ event: Announcement) { pendingReport.withLock { $0.announce(event) } }

    func warn(_ message: String) { announce(Announcement("warning") { $0.set("message", message) }) }

    var unreportedSince: ContinuousClock.Instant? { pendingReport.withLock { $0.oldestEvent } }

    var needsTick: Bool { pendingReport.withLock { $0.needsTick } }

    func markControlPending() { pendingReport.withLock { $0.markControlPending() } }

    func record(_ resume: ResumePoint) { pendingReport.withLock { $0.record(resume) } }

    func forgetBytes() { pendingReport.withLock { $0.forgetBytes() } }

    /// Whether there is a resume point, which Redis may know.
    var hasResume: Bool { pendingReport.withLock { $0.resume != nil } }

    /// Redis may have recorded that the request is sent.
    var isMarkedSent: Bool { pendingReport.withLock { $0.isMarkedSent } }

    /// What Redis does not know yet of a run that has ended.
    func takeReport() -> RunReport { pendingReport.withLock { $0.takeLast() } }

    /// The same of an active run, with its progress.
    func takeProgressReport() -> RunReport {
        let (progress, waitsFor, isActive) = (attempt.progress, attempt.waitsFor, attempt.isActive)
        return pendingReport.withLock { $0.take(progress, waitsFor: waitsFor, isActive: isActive, of: run) }
    }

    /// Redis has answered a call that had a report.
    func confirmReport() { pendingReport.withLock { $0.confirm() } }

    func putBack(_ report: RunReport) { pendingReport.withLock { $0.putBack(report) } }
}

/// A running job's lease, as far as this process may rely on it: by its own monotonic clock, from before the last
/// confirmed tick was sent. In Redis the lease never ends earlier than that, however late the reply came, as long as Redis
/// sees the worker: `QueueServer.isSeen`.
final class Lease: Sendable {
    private let length: Duration
    private let confirmed: Mutex<ContinuousClock.Instant>
    /// The same for the writers of a file, which ask too often for a lock. Nanoseconds of `now()`.
    private let writableUntil: Atomic<UInt64>
    /// When the last tick was sent that Redis has not answered.
    private let unanswered = Atomic<UInt64>(0)
    private let isLost = Atomic(false)

    /// - Parameter sent: The time before the claim was sent.
    init(length: Duration, sent: ContinuousClock.Instant) {
        self.length = length
        confirmed = Mutex(sent)
        writableUntil = Atomic(Self.time(of: sent) + Self.writable(length))
    }

    /// A tick that was sent at `sent` has extended the lease in Redis.
    func extend(sent: ContinuousClock.Instant) {
        confirmed.withLock { $0 = max($0, sent) }
        writableUntil.max(Self.time(of: sent) + Self.writable(length), ordering: .relaxed)
    }

    /// Redis has said that another run has the job.
    func end() { isLost.store(true, ordering: .relaxed) }

    /// Redis has not answered a tick that was sent at `sent`.
    func recordUnanswered(sent: ContinuousClock.Instant) {
        unanswered.max(Self.time(of: sent), ordering: .relaxed)
    }

    /// Whether the lease certainly holds for `margin` longer, so that there is time for work under the lease.
    func isHeld(margin: Duration = .milliseconds(500), at now: ContinuousClock.Instant = .now) -> Bool {
        now + margin < confirmed.withLock { $0 } + length
    }

    /// Whether the run may write to its file. A process that was stopped for longer than the lease writes nothing before
    /// Redis has answered. If Redis does not answer after the lease has ended, downloads go on: usually it is down, and
    /// no other run can have the job. Only a tick that was sent lately shows that: Redis may have come back while the
    /// process was stopped.
    var writePermit: WritePermit { writePermit(at: Self.time(of: .now)) }

    func writePermit(at now: UInt64) -> WritePermit {
        if isLost.load(ordering: .relaxed) { return .refused }
        let end = writableUntil.load(ordering: .relaxed)
        let failed = unanswered.load(ordering: .relaxed)
        return now < end || failed >= end && now < failed + Self.recent ? .granted : .unknown
    }

    /// Redis returns the jobs of a worker without a connection after 2.5 s (Lua/tick/disconnected.lua).
    private static func writable(_ length: Duration) -> UInt64 {
        UInt64(max(0, min(length, .milliseconds(2500)).milliseconds)) * 1_000_000
    }

    /// A tick fails after 5 s at the latest, and the next one is sent within a second. Nanoseconds.
    private static let recent: UInt64 = 15_000_000_000

    private static let origin = ContinuousClock.now

    /// Nanoseconds since some time before the first lease.
    static func time(of instant: ContinuousClock.Instant) -> UInt64 {
        let (seconds, attoseconds) = (instant - origin).components
        return UInt64(max(0, seconds * 1_000_000_000 + attoseconds / 1_000_000_000 + day))
    }

    /// An instant may be a little before `origin`.
    private static let day: Int64 = 86_400_000_000_000
}
