import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulMetrics
import HaulRedis
import HaulStorage

/// One run from its claim to the clean-up after its settle, in this order.
struct JobRunner: Sendable {
    let queueServer: QueueServer
    let activities: Activities
    let lease: Duration
    /// The id of this worker's store. Offsets on another store are of no use here.
    let store: String
    /// Whether jobs may replace files that are not theirs.
    let mayOverwrite: Bool

    /// A run that has ended and is not settled.
    struct End: Sendable {
        let claim: Claim
        let begun: ContinuousClock.Instant
        /// What is written to Redis. nil if another worker has taken over the job: then nothing is written.
        var runEnd: RunEnd?
        /// What `Leftovers` cleans up; nil if there is nothing.
        var remainder: (any RunRemainder)?

        /// The disk is full, or the root cannot be written: the worker takes no more jobs for now.
        var isParked: Bool { if case .parked? = runEnd?.settlement { true } else { false } }
        /// nil if the job could not be read.
        var job: Job?
        /// Bytes of the file that have arrived, those of earlier runs included.
        var received: Int64?
        /// Bytes that the run has fetched although the file has not grown by them.
        var refetched: Int64 = 0
    }

    // MARK: The run

    /// - Parameter sent: When the claim was sent. Its lease counts from then.
    func run(_ claim: Claim, sent: ContinuousClock.Instant) async -> End {
        // The call that claimed the job may have waited for it.
        var end = End(claim: claim, begun: .now)
        // The job was lost before. Record in Redis that this run has begun, before any of the job's data is touched. If
        // this job crashes the worker, the crash is counted against it.
        if claim.wasLost { await queueServer.reportActive(claim.run) }
        let job: Job
        let refused: Job.Invalid?
        do {
            (job, refused) = try claim.read(Self.check)
        } catch {
            end.runEnd = RunEnd(claim.run, .rejected(reason: error.description, before: claim.before))
            return end
        }
        end.job = job
        let running = RunningJob(claim: claim, job: job, lease: Lease(length: lease, sent: sent), queueServer)
        queueServer.queueLog.began(claim, job)
        let io = RunIO(running)
        guard let activity = activities.make(assignment(claim, job), io) else {
            let failure = Failure(.badJob, "this worker does no job of the kind \(job.kind.rawValue)")
            let failed = Settlement.failed(failure, retryable: false, received: 0)
            end.runEnd = RunEnd(claim.run, failed, steps: NextSteps(after: failed, of: job, claim.run))
            return end
        }
        if !job.unknownFields.isEmpty {
            running.warn("unknown fields are ignored: \(job.unknownFields.joined(separator: ", "))")
        }
        if let refused { running.warn("the job goes on without its newest push, which cannot be read: \(refused)") }
        queueServer.table.add(running)
        defer { queueServer.table.remove(running) }
        // An idle worker's claim was sent long before its job came. A tick says now that the run may write.
        if running.lease.writePermit != .granted {
            running.markControlPending()
            queueServer.ticks.requestEarlyTick()
        }
        // After a long pause of this process another worker may have run the job, and made the file anew.
        let isDeleted =
            if let pendingDeletion = claim.pendingDeletion, await running.runLease.confirm() {
                await queueServer.leftovers.delete(pendingDeletion)
            } else {
                false
            }
        let result = await running.attempt.run(activity, io)
        // Bytes that were there before the run.
        let inherited = claim.resume.map { $0.store == store ? $0.offsets.count : 0 } ?? 0
        (end.remainder, end.received) = (result.remainder, result.progress.received)
        end.refetched = max(0, result.progress.transferred - max(0, result.progress.received - inherited))
        guard let settlement = settlement(after: result, running) else { return end }
        if !settlement.isLast, let remainder = result.remainder {
            switch await remainder.retain(until: queueServer.grace.sleepUntilSettling) {
            case .nothing: running.forgetBytes()
            case .checkpoint(let point?): running.record(point)
            case .checkpoint(nil): break
            }
        }
        if running.attempt.stopReason == .fenced { return end }
        var report = running.takeReport()
        if settlement.isCompleted { report.offsets = nil }
        // The last checkpoint is newer than the last tick: what is durable was received.
        if !settlement.isLast, report.offsets != nil {
            report.fields.append(("received", String(result.progress.received)))
        }
        // If the request was not sent after all, or may be repeated, the next run may send it: clear the mark.
        if running.isMarkedSent, result.isRepeatable || settlement.isCompleted { report.fields.append(("sent", "")) }
        if isDeleted { report.fields.append(("pending_deletion", "")) }
        if let failure = settlement.failure {
            let failures = PastFailures.text(
                claim.failures, adding: failure, started: claim.started, ended: claim.clock.milliseconds,
                worker: queueServer.claims.identity.name, received: result.progress.received)
            report.fields.append(("failures", failures))
        }
        end.runEnd = RunEnd(
            claim.run, settlement, report, isFresh: claim.previous == nil && !running.hasResume,
            awaitsReplicas: queueServer.replicaWait != nil, response: result.response, hadResponse: claim.hasResponse,
            steps: NextSteps(after: settlement, of: job, claim.run))
        return end
    }

    private func assignment(_ claim: Claim, _ job: Job) -> Assignment {
        var assignment = Assignment(
            job: job, token: claim.run.token, key: PartialKey.of(claim.run.id, in: queueServer.queue.name),
            clock: claim.clock)
        (assignment.id, assignment.queue) = (claim.run.id, "\(queueServer.queue.name)")
        (assignment.resume, assignment.completed) = (claim.resume, claim.completed)
        // A later push that failed, as by a gate, may have shown that the server has another version by now.
        if claim.previous == .failed { assignment.completed?.validated = 0 }
        (assignment.storedResponse, assignment.wasSent) = (claim.storedResponse, claim.wasSent)
        (assignment.isNew, assignment.isSettled) = (claim.isNew, claim.previous == .completed)
        assignment.isPushedAgain = claim.isPushedAgain
        assignment.mayOverwrite = mayOverwrite
        assignment.limits = [queueServer.rates.bucket]
        assignment.hostBuckets = queueServer.rates.hosts
        if let group = job.group {
            assignment.limits.append(queueServer.rates.hosts.bucket(named: HostLimit.name(ofGroup: group)))
        }
        return assignment
    }

    /// Refuses what Redis does not check: a host name that cannot exist, and steps that are not jobs.
    private static func check(_ job: Job) throws(Job.Invalid) {
        try job.checkSteps()
        guard let url = job.unreadableURL else { return }
        throw Job.Invalid(field: "url", reason: "\(url) has an invalid host name")
    }

    // MARK: The settle

    /// Settles a run that has ended, and removes what is left of it. `cleanUps` outlives the call.
    func settle(_ end: End, wantsNext: Bool, _ cleanUps: inout DiscardingTaskGroup) async -> QueueServer.Settled {
        let (claim, leftovers, grace) = (end.claim, queueServer.leftovers, queueServer.grace)
        guard let runEnd = end.runEnd else {
            queueServer.claims.forget(claim.run)
            queueServer.queueLog.ended(end, as: .fenced)
            if let remainder = end.remainder {
                cleanUps.addTask {
                    await outlastingCancellation(until: grace.sleepUntilSettling) {
                        await leftovers.cleanUp(claim.run, remainder, after: nil)
                    }
                }
            }
            return QueueServer.Settled()
        }
        let reply = await queueServer.settle(runEnd, wantsNext: wantsNext)
        let result: RunResult =
            reply.isOurs ? .settled(runEnd.settlement) : queueServer.grace.hasEnded ? .unsettled : .fenced
        if case .fenced = result { queueServer.queueLog.fenced(claim, end.job) }
        queueServer.queueLog.ended(end, as: result)
        if let remainder = end.remainder {
            let isSoon = reply.next != nil && reply.isOurs && runEnd.settlement.isCompleted
            let cleanUp = { @Sendable in
                await leftovers.cleanUp(
                    claim.run, remainder, after: reply.isOurs ? runEnd.settlement : nil, isSoon: isSoon)
            }
            // With `isSoon` the clean-up only schedules the removal, so waiting for it costs little.
            if isSoon {
                await cleanUp()
            } else {
                cleanUps.addTask { await outlastingCancellation(until: grace.sleepUntilSettling, cleanUp) }
            }
        }
        return reply
    }

    /// How the run is settled. nil if another worker has taken over the job.
    private func settlement(after result: ActivityResult, _ running: RunningJob) -> Settlement? {
        switch result.outcome {
        case .fenced: nil
        case .completed(let file, let seconds, let unchanged):
            .completed(file, seconds: seconds, unchanged: unchanged)
        case .responded(let response, let seconds, let unchanged):
            .responded(response, seconds: seconds, unchanged: unchanged)
        case .parked(let reason): .parked(after: .seconds(5), reason: reason)
        case .failed(let failure): settlement(after: failure, result, running)
        case .stopped:
            switch running.attempt.stopReason {
            case .fenced: nil
            case .cancelled: .cancelled
            case .paused: .paused
            case .deadline:
                .failed(
                    late(.deadline, "the deadline passed before the job could end", result), retryable: false,
                    received: result.progress.received)
            case .timeLimit: settlement(after: overtime(result, running), result, running, isOvertime: true)
            case .shutdown, nil: .released(why: "shutdown")
            }
        }
    }

    private func overtime(_ result: ActivityResult, _ running: RunningJob) -> Failure {
        let cause =
            "the run took longer than the \(running.claim.limits.maxSeconds ?? 0) seconds that max_seconds allows"
        return late(.tooSlow, cause, result)
    }

    /// The failure of a run that was ended because of `cause`.
    private func late(_ code: ErrorCode, _ cause: String, _ result: ActivityResult) -> Failure {
        guard !result.isRepeatable else { return Failure(code, cause) }
        return Failure(
            .outcomeUnknown,
            "\(cause); the request was sent, and is not repeated because it is unknown whether the server has executed it",
            isFinal: true)
    }

    /// Decides between another attempt and the end.
    private func settlement(
        after failure: Failure, _ result: ActivityResult, _ running: RunningJob, isOvertime: Bool = false
    ) -> Settlement {
        let isWebhook = running.job.request.webhook != nil
        let verdict = RetryPolicy.judge(
            failure, after: result, failed: running.claim.attempt,
            retries: running.job.retries ?? (isWebhook ? RetryPolicy.webhookRetries : RetryPolicy.defaultRetries),
            isWebhook: isWebhook, isOvertime: isOvertime)
        return switch verdict {
        case .retry(let delay): .retry(after: delay, failure)
        case .retryAfterProgress(let delay): .retryAfterProgress(after: delay, failure)
        case .end(let isRetryable):
            .failed(failure, retryable: isRetryable, received: result.progress.received)
        }
    }
}
