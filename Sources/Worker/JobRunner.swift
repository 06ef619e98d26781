import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulMetrics
import HaulRedis
import HaulStorage

/// Runs one claimed job and decides how it is settled.
struct JobRunner: Sendable {
    let activities: Activities
    let lease: Duration
    /// The id of this worker's store. Offsets on another store are of no use here.
    let store: String
    /// Whether jobs may replace files that are not theirs.
    let mayOverwrite: Bool

    /// What is left to do after a run.
    struct End: Sendable {
        /// What is written to Redis. nil if another worker has taken over the job: then nothing is written.
        var runEnd: RunEnd?
        /// nil if the run ended before its activity was made. `Leftovers` cleans up after the activity.
        var activity: (any Activity)?

        /// The disk is full, or the root cannot be written: the worker takes no more jobs for now.
        var isParked: Bool { if case .parked? = runEnd?.settlement { true } else { false } }
        /// nil if the job could not be read.
        var job: Job?
        /// Bytes of the file that have arrived, those of earlier runs included.
        var received: Int64?
        /// Bytes that the run has fetched although the file has not grown by them.
        var refetched: Int64 = 0
    }

    func run(_ claim: Claim, for queueServer: QueueServer, sent: ContinuousClock.Instant) async -> End {
        // The job was lost before. Record in Redis that this run has begun, before any of the job's data is touched. If
        // this job crashes the worker, the crash is counted against it.
        if claim.wasLost { await queueServer.reportActive(claim.run) }
        let job: Job
        let refused: Job.Invalid?
        do {
            (job, refused) = try claim.read(Self.check)
        } catch {
            return End(runEnd: RunEnd(claim.run, .rejected(reason: error.description, before: claim.before)))
        }
        let running = RunningJob(claim: claim, job: job, lease: Lease(length: lease, sent: sent))
        queueServer.queueLog.began(claim, job)
        let reportNow: @Sendable () async -> Void = { await queueServer.report(running) }
        var assignment = Assignment(
            job: job, token: claim.run.token, key: PartialKey.of(claim.run.id, in: queueServer.queue.name),
            clock: claim.clock,
            lease: RunLease(
                isHeld: { running.stopReason != .fenced && running.lease.isHeld() },
                confirm: { await self.mayCommit(running, queueServer) }),
            report: { self.announce($0, of: running, queueServer) })
        (assignment.resume, assignment.completed) = (claim.resume, claim.completed)
        (assignment.storedResponse, assignment.wasSent) = (claim.storedResponse, claim.wasSent)
        assignment.mayOverwrite = mayOverwrite
        assignment.limits = [queueServer.rates.queue.bucket]
        assignment.hostBuckets = queueServer.rates.hosts
        assignment.markSent = { await self.markSent(running, queueServer) }
        (assignment.isNew, assignment.isSettled) = (claim.previous == nil, claim.previous == .completed)
        assignment.workChanged = claim.wasLost ? reportNow : nil
        assignment.committed = { queueServer.metrics.commits.record($0) }
        guard let activity = activities.begin(assignment) else {
            let failure = Failure(.badJob, "this worker does no job of the kind \(job.kind.rawValue)")
            return End(runEnd: RunEnd(claim.run, .failed(failure, retryable: false, received: 0)), job: job)
        }
        if !job.unknownFields.isEmpty {
            running.warn("unknown fields are ignored: \(job.unknownFields.joined(separator: ", "))")
        }
        if let refused { running.warn("the job goes on without its newest push, which cannot be read: \(refused)") }
        queueServer.enter(running, activity)
        defer { queueServer.leave(running, activity) }
        let isDeleted =
            if let pendingDeletion = claim.pendingDeletion { await queueServer.leftovers.delete(pendingDeletion) } else
            {
                false
            }
        let outcome = await running.start(activity)
        guard let settlement = await end(running, activity, outcome) else {
            return ended(claim, activity, job, nil)
        }
        var report = running.takeReport()
        if settlement.isCompleted { report.offsets = nil }
        // The last checkpoint is newer than the last tick: what is durable was received.
        if !settlement.isLast, report.offsets != nil {
            report.fields.append(("received", String(activity.progress().received)))
        }
        // If the request was not sent after all, or may be repeated, the next run may send it: clear the mark.
        if running.isMarkedSent, activity.isRepeatable || settlement.isCompleted { report.fields.append(("sent", "")) }
        if isDeleted { report.fields.append(("pending_deletion", "")) }
        let runEnd = RunEnd(
            claim.run, settlement, report, isFresh: claim.previous == nil && !running.hasResume,
            awaitsReplicas: queueServer.replicaWait != nil, response: activity.response, hadResponse: claim.hasResponse)
        return ended(claim, activity, job, runEnd)
    }

    private func ended(_ claim: Claim, _ activity: any Activity, _ job: Job, _ runEnd: RunEnd?) -> End {
        // Bytes that were there before the run.
        let inherited = claim.resume.map { $0.store == store ? $0.offsets.count : 0 } ?? 0
        let received = activity.progress().received
        return End(
            runEnd: runEnd, activity: activity, job: job, received: received,
            refetched: max(0, activity.transferred - max(0, received - inherited)))
    }

    /// Refuses a host name that cannot exist. Redis cannot check international names, so the worker does.
    private static func check(_ job: Job) throws(Job.Invalid) {
        guard let url = job.unreadableURL else { return }
        throw Job.Invalid(field: "url", reason: "\(url) has an invalid host name")
    }

    private func mayCommit(_ running: RunningJob, _ queueServer: QueueServer) async -> Bool {
        while running.stopReason != .fenced, !queueServer.isOutOfTime {
            if running.lease.isHeld() { return true }
            // By our own clock the lease may be over, so ask Redis before the file gets its name.
            await queueServer.report(running)
        }
        return false
    }

    /// Records in Redis that the request is about to be sent, and tries again until Redis answers. The call is
    /// idempotent. False if another run has the job, or if this one must stop.
    private func markSent(_ running: RunningJob, _ queueServer: QueueServer) async -> Bool {
        running.recordMarkedSent()
        while running.stopReason == nil, !queueServer.isOutOfTime {
            if let isOurs = await queueServer.reportSent(running) { return isOurs && running.stopReason == nil }
        }
        return false
    }

    private func announce(_ event: ActivityEvent, of running: RunningJob, _ queueServer: QueueServer) {
        queueServer.queueLog.log(event, of: running.claim, running.job)
        let announcement = Announcement(event.name) { object in
            if case .started = event { object.set("attempt", running.claim.attempt + 1) }
            event.write(to: &object)
        }
        running.announce(announcement)
        queueServer.hurrySoon()
    }

    /// Makes the last checkpoint, and decides how the run is settled. nil if another worker has taken over the job.
    private func end(
        _ running: RunningJob, _ activity: any Activity, _ outcome: ActivityOutcome
    ) async -> Settlement? {
        guard let settlement = settlement(of: outcome, running, activity) else { return nil }
        await running.endCheckpoints()
        if !settlement.isLast {
            if await activity.discardUseless() { running.forgetBytes() }
            running.record(await activity.finalCheckpoint())
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
        case .responded(let response, let seconds, let unchanged):
            .responded(response, seconds: seconds, unchanged: unchanged)
        case .parked(let reason): .parked(after: .seconds(5), reason: reason)
        case .failed(let failure): settlement(after: failure, running, activity)
        case .stopped:
            switch running.stopReason {
            case .fenced: nil
            case .cancelled: .cancelled
            case .paused: .paused
            case .deadline:
                .failed(
                    Failure(.deadline, "the deadline passed before the job could end"), retryable: false,
                    received: activity.progress().received)
            case .timeLimit: settlement(after: overtime(running, activity), running, activity)
            case .shutdown, nil: .released(why: "shutdown")
            }
        }
    }

    private func overtime(_ running: RunningJob, _ activity: any Activity) -> Failure {
        let cause =
            "the run took longer than the \(running.claim.limits.maxSeconds ?? 0) seconds that max_seconds allows"
        guard !activity.isRepeatable else { return Failure(.tooSlow, cause) }
        return Failure(
            .outcomeUnknown,
            "\(cause); the request was sent, and is not repeated because it is unknown whether the server has executed it",
            isFinal: true)
    }

    /// Decides between another attempt and the end.
    private func settlement(
        after failure: Failure, _ running: RunningJob, _ activity: any Activity
    ) -> Settlement {
        let verdict = RetryPolicy.judge(
            failure, of: activity, failed: running.claim.attempt,
            retries: running.job.retries ?? RetryPolicy.retries)
        return switch verdict {
        case .retry(let delay): .retry(after: delay, failure)
        case .retryAfterProgress(let delay): .retryAfterProgress(after: delay, failure)
        case .end(let isRetryable):
            .failed(failure, retryable: isRetryable, received: activity.progress().received)
        }
    }
}
