import HaulContract

@testable import HaulBus

extension Ledger {
    /// Which call was made.
    enum Cause {
        case claim
        /// The run of a schedule is pushed.
        case schedule
        case settle([(run: Run, settlement: Settlement)])
        case tick
        /// A call of a tick that is not the last one. It only applies operations and reports runs.
        case report
        /// A call between the ticks, which only promotes jobs that are due.
        case pace
        case registration(worker: String, known: Set<String>, isSuccessor: Bool)

        var name: String {
            switch self {
            case .claim: "claim"
            case .schedule: "schedule"
            case .settle(let ends):
                "settling " + ends.map { "\($0.run.id) as \($0.settlement.outcome)" }.joined(separator: ", ")
            case .tick: "tick"
            case .report: "report"
            case .pace: "pace"
            case .registration(let worker, _, _): "\(worker) registers"
            }
        }
    }

    /// Checks what a call has done to a job. `isApplied`: the call has applied the job's operation.
    mutating func check(_ id: String, _ after: Facts, _ cause: Cause, isApplied: Bool) {
        guard var job = jobs[id] else { return }
        let before = job.facts
        var state = before.state
        // A retry and a continuation of a failed job count the deadline anew, and that of a webhook counts from its first
        // claim. A call may fail a job whose deadline has passed, and then continue it.
        let mayFail = job.deadlines.contains { $0 <= now }
        if before.state == .failed || before.state == nil && job.isInternal || mayFail, let deadline = after.deadline,
            job.periods.contains(deadline - now)
        {
            job.deadlines.insert(deadline)
        }
        if case .settle(let ends) = cause {
            for (run, settlement) in ends where run.id == id && state == .running && run.token == before.token {
                state = job.settled(as: settlement, now, policy)
                state = job.follow(state, after, now, policy)
            }
        }
        if isApplied, let operation = job.pendingOperation { apply(operation, &job, &state, after) }
        switch cause {
        case .claim, .settle, .schedule: state = stateAfterClaim(of: id, &job, state, after)
        case .tick: state = stateAfterClaimOfNothing(of: id, &job, stateAfterTick(of: id, &job, state, after), after)
        case .report: break
        case .pace:
            // One call promotes some of many jobs.
            if state == .scheduled, let due = before.due, due <= now, after.state == .queued { state = .queued }
            state = stateAfterClaimOfNothing(of: id, &job, state, after)
        case .registration(let worker, let known, let isSuccessor):
            if state == .running, job.isInWorkerHash, before.worker == worker, let token = before.token,
                !known.contains(token)
            {
                let back = isSuccessor ? job.lost(now, policy) : job.requeued(now, policy)
                state = job.follow(back, after, now, policy)
            }
        }
        // The kept push is newer than the pause behind the cancel, so the pause does not stop it. Any call that sorts the
        // elements of a group may have found the push.
        if state == .running, after.isKept, after.wantNext == nil, let pause = job.wantNext,
            job.lastPush > pause.timestamp || !job.isTimed
        {
            job.wantNext = nil
        }
        if after.state != state {
            recordViolation("\(id): \(cause.name) made \(after) of \(before), and not \(state?.rawValue ?? "unknown")")
        }
        if (before.state, before.token, before.want) != (after.state, after.token, after.want) {
            trace(id, "\(cause.name): \(before) → \(after)")
        }
        job.facts = after
        check(id, job, before)
        jobs[id] = job
    }

    /// Applies an operation to the job, as a tick does, or a call that claims an element of the job.
    private func apply(
        _ operation: ExpectedJob.Operation, _ job: inout ExpectedJob, _ state: inout JobState?, _ after: Facts
    ) {
        var applied = job
        let next = applied.apply(operation, in: state, isWaiting: after.shows(operation.kind), now, policy)
        // The same call may do more: a due job joins the queue, a deadline passes, a lost run is requeued.
        let isSame = (after.want, after.wantNext) == (job.facts.want, job.facts.wantNext)
        let isIgnored =
            after.state == state && next == state
            ? isSame : after.state != next && after.state != operation.stoppedState
        // The operation ended or forgot the job, and the push that overtook the operation restarted the job.
        let isForgotten = next == nil && !job.checkpoint.intervals.isEmpty && !after.hasOffsets
        let hasRestarted =
            next?.isFinal ?? true && (after.crashes < job.losses || after.attempt < job.attempts || isForgotten)
        if job.isOvertaken(operation), isIgnored, !hasRestarted {
            job.pendingOperation = nil
        } else {
            (job, state) = (applied, next)
        }
    }

    /// What a tick does to a job besides applying operations. Returns the job's state.
    private mutating func stateAfterTick(of id: String, _ job: inout ExpectedJob, _ before: JobState?, _ after: Facts)
        -> JobState?
    {
        var state = before
        if state == .running, after.state != .running {
            let isGone = job.facts.worker.map(deadWorkers.contains) ?? false
            if now < job.lease || now < grace, !isGone {
                recordViolation("\(id): its worker lost a lease that it held")
            }
            state = job.lost(now, policy)
            // A kept push that restarts the job deletes the error.
            if state == .failed, after.state == .failed, after.error != "crash_loop" {
                recordViolation("\(id): the error is \(after.error ?? ""), and not crash_loop")
            }
            state = job.follow(state, after, now, policy)
            // The kept push may have a deadline that has passed by now, whether a pause is behind it or not.
            let hasEnded = after.error == "deadline" && job.deadlines.contains { $0 <= now }
            if job.facts.isKept, after.state == .failed, state == .queued || state == .paused && hasEnded {
                state = job.ended(.failed, now, policy)
            }
        }
        if state == .scheduled, let due = job.facts.due, due <= now { state = .queued }
        // A kept push that restarts the job has its own deadline, or none.
        let isRestart = job.facts.isKept && job.facts.state == .running && state != .running && after.state != .failed
        if [.queued, .scheduled, .paused].contains(state),
            let deadline = after.deadline ?? (isRestart ? nil : job.facts.deadline), deadline <= now,
            // A tick fails at least a hundred. Another one fails the others, or whoever claims them.
            overdue <= 100 || after.state == .failed
        {
            if after.error != "deadline" { recordViolation("\(id): it failed with \(after.error ?? "no error")") }
            state = job.ended(.failed, now, policy)
        }
        return state
    }

    /// A call that claims nothing does what a claim would do to an element that has to wait, and starts nothing.
    private mutating func stateAfterClaimOfNothing(
        of id: String, _ job: inout ExpectedJob, _ state: JobState?, _ after: Facts
    ) -> JobState? {
        guard after.state != state || state == nil, after.state != .running else { return state }
        return stateAfterClaim(of: id, &job, state, after)
    }

    /// What claims of elements did to a job in `state`. Returns the job\'s new state.
    private mutating func stateAfterClaim(
        of id: String, _ job: inout ExpectedJob, _ state: JobState?, _ after: Facts
    ) -> JobState? {
        let isBegun = after.state == .running && after.token != job.facts.token
        let isPostponed = after.state == .scheduled && state != .scheduled
        if isBegun || isPostponed {
            if job.isTimed, job.pendingSince == nil, !job.mayRunAgain {
                recordViolation("\(id): it ran again without a push or a retry")
            }
            // A settled push that runs after all has to be done, even if this run is lost.
            if job.mayRunAgain, job.pendingSince == nil { job.pendingSince = job.lastPush }
            job.mayRunAgain = false
            (job.want, job.wantNext, job.expiry) = (nil, nil, nil)
            if state?.isFinal ?? true { job.restart() }
            if let deadline = after.deadline, !job.deadlines.contains(deadline) {
                recordViolation("\(id): its deadline is not that of a push")
            }
            job.lease = now + policy.lease.inMilliseconds
            job.isInWorkerHash = true
            return after.state
        }
        // A job that is claimed after its deadline fails. If the time to live of its hash is not new, the job was not
        // touched.
        if after.state == .failed, after.error == "deadline", let left = after.timeToLive,
            left <= policy.keepFailed + .seconds(10)
        {
            if !job.deadlines.contains(where: { $0 <= now }) { recordViolation("\(id): its deadline had not passed") }
            (job.want, job.wantNext) = (nil, nil)
            if state?.isFinal ?? true { job.restart() }
            return job.ended(.failed, now, policy)
        }
        // A push was claimed that the waiting operation stops.
        if state?.isFinal ?? true, let operation = job.want,
            state == nil && (after.state != nil || after.want != operation.kind.rawValue) || after.state == .paused
        {
            job.restart()
            // A push that is newer than the removal is stopped by the pause behind the removal.
            if state == nil, after.state == .paused, let pause = job.wantNext,
                job.lastPush > operation.timestamp || !job.isTimed
            {
                job.wantNext = nil
                return job.stopped(by: pause, now, policy)
            }
            let stopped = job.stopped(by: operation, now, policy)
            guard let pause = job.wantNext else { return stopped }
            job.wantNext = nil
            return job.apply(pause, in: stopped, isWaiting: after.want == "paused", now, policy)
        }
        return state
    }

    /// Checks what must hold for a job at any time.
    private mutating func check(_ id: String, _ job: ExpectedJob, _ before: Facts) {
        let facts = job.facts
        if facts.want != job.want?.kind.rawValue {
            recordViolation(
                "\(id) is \(facts) with the operation \(facts.want ?? "none"), not \(String(describing: job.want))")
        }
        if facts.wantNext != job.wantNext?.kind.rawValue {
            recordViolation("\(id) is \(facts), not with \(String(describing: job.wantNext)) as the next operation")
        }
        if facts.isKept, facts.want == nil {
            recordViolation("\(id) is \(facts), and no operation waits before the kept push")
        }
        if let state = facts.state, !state.isFinal, (facts.crashes, facts.attempt) != (job.losses, job.attempts) {
            recordViolation(
                "\(id) is \(facts) with \(facts.crashes) crashes and \(facts.attempt) attempts, not \(job.losses) and \(job.attempts)"
            )
        }
        let left = job.expiry.map { Duration.milliseconds($0 - now) }
        switch (left, facts.timeToLive) {
        case (nil, nil): break
        case (let left?, let found?):
            // Redis' own clock has run since the time to live was set, at another pace than the simulation's. The hash of
            // an ended job outlives its time a little, so that a tick deletes it.
            let longest = facts.state?.isFinal == true ? left + .seconds(10) : left
            if before.state != facts.state, found > longest || found < longest - .seconds(10) {
                recordViolation("\(id) is \(facts) for \(found), not \(left)")
            }
        case (let left, let found):
            recordViolation("\(id) is \(facts) for \(found, default: "ever"), not \(left, default: "ever")")
        }
    }
}

extension DefaultStringInterpolation {
    fileprivate mutating func appendInterpolation(_ value: Duration?, default text: String) {
        appendInterpolation(value.map { "\($0)" } ?? text)
    }
}
