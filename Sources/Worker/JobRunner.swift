import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulMetrics
import HaulRedis
import HaulStorage

/// Runs one claimed job and says how it is to be settled.
struct JobRunner: Sendable {
    let activities: Activities
    let lease: Duration
    /// Offsets on another one are of no use here.
    let store: String

    /// What is to be done once a run has ended.
    struct End: Sendable {
        /// What Redis is told; nil: the run was fenced, nothing may be said.
        var runEnd: RunEnd?
        /// None if it did not come so far. What is left of it is for `Leftovers`.
        var activity: (any Activity)?

        /// The disk is full, or the root cannot be written: no more jobs for now.
        var isParked: Bool { if case .parked? = runEnd?.settlement { true } else { false } }
        /// As it was read; nil if it cannot be.
        var job: Job?
        /// Bytes of the file that are there.
        var received: Int64?
        /// Bytes that the run has fetched and that made the file no longer.
        var refetched: Int64 = 0
    }

    func run(_ claim: Claim, for attendant: QueueAttendant, sent: ContinuousClock.Instant) async -> End {
        // Whatever it is that ends workers, it is known then that this run had begun.
        if claim.wasLost { await attendant.tellBegun(claim.run) }
        let job: Job
        let refused: Job.Invalid?
        do {
            (job, refused) = try claim.read(Self.check)
        } catch {
            return End(runEnd: RunEnd(claim.run, .rejected(reason: error.description, before: claim.before)))
        }
        let running = RunningJob(claim: claim, job: job, lease: Lease(length: lease, sent: sent))
        attendant.journal.began(claim, job)
        let tell: @Sendable () async -> Void = { await attendant.tell(running) }
        var assignment = Assignment(
            job: job, token: claim.run.token, key: PartialKey.of(claim.run.id, in: attendant.queue.name),
            clock: claim.clock,
            lease: RunLease(
                isHeld: { running.stopReason != .fenced && running.lease.isHeld() },
                confirm: { await self.mayCommit(running, attendant) }),
            report: { self.announce($0, of: running, attendant) })
        (assignment.resume, assignment.completed) = (claim.resume, claim.completed)
        (assignment.answered, assignment.wasSent) = (claim.answered, claim.wasSent)
        assignment.limits = [attendant.rates.queue.bucket]
        assignment.hostBuckets = attendant.rates.hosts
        assignment.markSent = { await self.markSent(running, attendant) }
        (assignment.isNew, assignment.isSettled) = (claim.previous == nil, claim.previous == .completed)
        assignment.workChanged = claim.wasLost ? tell : nil
        assignment.committed = { attendant.figures.commits.record($0) }
        guard let activity = activities.begin(assignment) else {
            let failure = Failure(.badJob, "this worker does no job of the kind \(job.kind.rawValue)")
            return End(runEnd: RunEnd(claim.run, .failed(failure, retryable: false, received: 0)), job: job)
        }
        if !job.unknownFields.isEmpty {
            running.warn("unknown fields are ignored: \(job.unknownFields.joined(separator: ", "))")
        }
        if let refused { running.warn("the job goes on without its newest push, which cannot be read: \(refused)") }
        attendant.enter(running, activity)
        defer { attendant.leave(running, activity) }
        let isDeleted = if let doomed = claim.doomed { await attendant.leftovers.delete(doomed) } else { false }
        let outcome = await running.start(activity)
        guard let settlement = await end(running, activity, outcome) else {
            return ended(claim, activity, job, nil)
        }
        var report = running.takeReport()
        if settlement.isCompleted { report.offsets = nil }
        // What was not sent after all may be sent by the next run.
        if running.isMarkedSent, activity.isRepeatable || settlement.isCompleted { report.fields.append(("sent", "")) }
        if isDeleted { report.fields.append(("doomed", "")) }
        let runEnd = RunEnd(
            claim.run, settlement, report, isFresh: claim.previous == nil && !running.hasResume,
            awaitsReplicas: attendant.replicaWait != nil, response: activity.response, hadResponse: claim.hasResponse)
        return ended(claim, activity, job, runEnd)
    }

    private func ended(_ claim: Claim, _ activity: any Activity, _ job: Job, _ runEnd: RunEnd?) -> End {
        // Bytes that were there before the run.
        let inherited = claim.resume.map { $0.store == store ? $0.offsets.count : 0 } ?? 0
        let received = activity.progress().received
        return End(
            runEnd: runEnd, activity: activity, job: job, received: received,
            refetched: max(0, activity.moved - max(0, received - inherited)))
    }

    /// Only a worker can tell which international names there can be.
    private static func check(_ job: Job) throws(Job.Invalid) {
        guard let url = job.unreadableURL else { return }
        throw Job.Invalid(field: "url", reason: "\(url) has a host that cannot be")
    }

    private func mayCommit(_ running: RunningJob, _ attendant: QueueAttendant) async -> Bool {
        while running.stopReason != .fenced, !attendant.isOutOfTime {
            if running.lease.isHeld() { return true }
            // By our clock the lease may have lapsed: Redis must be asked before the name is placed.
            await attendant.tell(running)
        }
        return false
    }

    /// Until Redis has heard it; it can be sent again, since it says the same. False: another run has the job, or this one is to
    /// stop.
    private func markSent(_ running: RunningJob, _ attendant: QueueAttendant) async -> Bool {
        running.noteMarkedSent()
        while running.stopReason == nil, !attendant.isOutOfTime {
            if let isOurs = await attendant.tellSent(running) { return isOurs && running.stopReason == nil }
        }
        return false
    }

    private func announce(_ event: ActivityEvent, of running: RunningJob, _ attendant: QueueAttendant) {
        attendant.journal.heard(event, of: running.claim, running.job)
        let announcement = Announcement(event.name) { object in
            if case .started = event { object.set("attempt", running.claim.attempt + 1) }
            event.write(to: &object)
        }
        running.announce(announcement)
        attendant.hurrySoon()
    }

    /// How an ended activity is to be settled, after its last checkpoint; nil: the run was fenced.
    private func end(
        _ running: RunningJob, _ activity: any Activity, _ outcome: ActivityOutcome
    ) async -> Settlement? {
        guard let settlement = settlement(of: outcome, running, activity) else { return nil }
        await running.endCheckpoints()
        if !settlement.isLast {
            if await activity.discardUseless() { running.forgetBytes() }
            running.note(await activity.finalCheckpoint())
        }
        return running.stopReason == .fenced ? nil : settlement
    }

    private func settlement(
        of outcome: ActivityOutcome, _ running: RunningJob, _ activity: any Activity
    ) -> Settlement? {
        switch outcome {
        case .fenced: nil
        case .completed(let file, let seconds, let unchanged):
            .completed(file, seconds: seconds, unchanged: unchanged)
        case .answered(let response, let seconds, let unchanged):
            .answered(response, seconds: seconds, unchanged: unchanged)
        case .parked(let reason): .parked(after: .seconds(5), reason: reason)
        case .failed(let failure): settlement(after: failure, running, activity)
        case .stopped:
            switch running.stopReason {
            case .fenced: nil
            case .cancelled: .cancelled
            case .paused: .paused
            case .deadline:
                .failed(
                    Failure(.deadline, "the deadline passed before the download could end"), retryable: false,
                    received: activity.progress().received)
            case .shutdown, nil: .released(why: "shutdown")
            }
        }
    }

    /// Another attempt, or the end.
    private func settlement(
        after failure: Failure, _ running: RunningJob, _ activity: any Activity
    ) -> Settlement {
        let verdict = RetryPolicy.judge(
            failure, of: activity, failed: running.claim.attempt,
            retries: running.job.retries ?? RetryPolicy.retries)
        return switch verdict {
        case .retry(let delay): .retry(after: delay, failure)
        case .carryOn(let delay): .carryOn(after: delay, failure)
        case .end(let isRetryable):
            .failed(failure, retryable: isRetryable, received: activity.progress().received)
        }
    }
}
