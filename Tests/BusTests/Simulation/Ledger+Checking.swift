import HaulContract

@testable import HaulBus

extension Ledger {
    /// Which call was made.
    enum Cause {
        case claim
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
            case .settle(let ends):
                "settling " + ends.map { "\($0.run.id) as \($0.settlement.outcome)" }.joined(separator: ", ")
            case .tick: "tick"
            case .report: "report"
            case .pace: "pace"
            case .registration(let worker, _, _): "\(worker) registers"
            }
        }
    }

    /// Checks what a call has done to a job. `isHeard`: the call has applied the job's operation.
    mutating func check(_ id: String, _ after: Facts, _ cause: Cause, isHeard: Bool) {
        guard var story = stories[id] else { return }
        let before = story.facts
        var state = before.state
        // A retry by hand counts the deadline anew.
        if before.state == .failed, let deadline = after.deadline, story.periods.contains(deadline - now) {
            story.deadlines.insert(deadline)
        }
        if case .settle(let ends) = cause {
            for (run, settlement) in ends where run.id == id && state == .running && run.token == before.token {
                state = story.settled(as: settlement, now, policy)
                state = story.follow(state, after, now, policy)
            }
        }
        if isHeard, let request = story.asked { apply(request, &story, &state, after) }
        switch cause {
        case .claim, .settle: state = taken(id, &story, state, after)
        case .tick:
            state = observed(id, &story, state, after)
            // A tick does what a claim would do to an element that waits for a host, and starts nothing.
            if after.state != state || state == nil, after.state != .running { state = taken(id, &story, state, after) }
        case .report: break
        case .pace:
            // One call promotes some of many jobs.
            if state == .scheduled, let due = before.due, due <= now, after.state == .queued { state = .queued }
        case .registration(let worker, let known, let isSuccessor):
            if state == .running, story.isNoted, before.worker == worker, let token = before.token,
                !known.contains(token)
            {
                let back = isSuccessor ? story.lost(now, policy) : story.putBack(now, policy)
                state = story.follow(back, after, now, policy)
            }
        }
        if after.state != state {
            recordViolation("\(id): \(cause.name) made \(after) of \(before), and not \(state?.rawValue ?? "unknown")")
        }
        if (before.state, before.token, before.want) != (after.state, after.token, after.want) {
            report(id, "\(cause.name): \(before) → \(after)")
        }
        story.facts = after
        check(id, story, before)
        stories[id] = story
    }

    /// Applies an operation to the story, as a tick does, or a call that claims an element of the job.
    private func apply(_ request: Story.Stop, _ story: inout Story, _ state: inout JobState?, _ after: Facts) {
        var applied = story
        let next = applied.apply(request, in: state, isWaiting: after.shows(request.request), now, policy)
        // The same call may do more: a due job joins the queue, a deadline passes, a lost run is requeued.
        let isSame = (after.want, after.behind) == (story.facts.want, story.facts.behind)
        let isIgnored =
            after.state == state && next == state ? isSame : after.state != next && after.state != request.stops
        // The operation ended the job, and the push that overtook the operation restarted the job.
        let isBegunAnew =
            next?.isFinal ?? true && (after.crashes < story.losses || after.attempt < story.attempts)
        if story.isOvertaken(request), isIgnored, !isBegunAnew {
            story.asked = nil
        } else {
            (story, state) = (applied, next)
        }
    }

    /// What a tick does to a job besides applying operations. Returns the job's state.
    private mutating func observed(_ id: String, _ story: inout Story, _ before: JobState?, _ after: Facts) -> JobState?
    {
        var state = before
        if state == .running, after.state != .running {
            let isGone = story.facts.worker.map(deadWorkers.contains) ?? false
            if now < story.lease || now < grace, !isGone {
                recordViolation("\(id): its worker lost a lease that it held")
            }
            state = story.lost(now, policy)
            // A kept push that restarts the job deletes the error.
            if state == .failed, after.state == .failed, after.error != "crash_loop" {
                recordViolation("\(id): the error is \(after.error ?? ""), and not crash_loop")
            }
            state = story.follow(state, after, now, policy)
            // The kept push may have a deadline that has passed by now, whether a pause is behind it or not.
            let isOver = after.error == "deadline" && story.deadlines.contains { $0 <= now }
            if story.facts.isKept, after.state == .failed, state == .queued || state == .paused && isOver {
                state = story.ended(.failed, now, policy)
            }
        }
        if state == .scheduled, let due = story.facts.due, due <= now { state = .queued }
        // A kept push that restarts the job has its own deadline, or none.
        let isAnew = story.facts.isKept && story.facts.state == .running && state != .running && after.state != .failed
        if [.queued, .scheduled, .paused].contains(state),
            let deadline = after.deadline ?? (isAnew ? nil : story.facts.deadline), deadline <= now
        {
            if after.error != "deadline" { recordViolation("\(id): it failed with \(after.error ?? "no error")") }
            state = story.ended(.failed, now, policy)
        }
        return state
    }

    /// What the taking of elements did to a job in `state`. Returns the job's new state.
    private mutating func taken(
        _ id: String, _ story: inout Story, _ state: JobState?, _ after: Facts
    ) -> JobState? {
        let isBegun = after.state == .running && after.token != story.facts.token
        let isPostponed = after.state == .scheduled && state != .scheduled
        if isBegun || isPostponed {
            if story.isTimed, story.demand == nil, !story.mayRunAgain {
                recordViolation("\(id): it ran again without a push or a retry")
            }
            // A settled push that runs after all has to be done, even if this run is lost.
            if story.mayRunAgain, story.demand == nil { story.demand = story.pushed }
            story.mayRunAgain = false
            (story.taken, story.behind, story.expiry) = (nil, nil, nil)
            if state?.isFinal ?? true { story.beginAnew() }
            if let deadline = after.deadline, !story.deadlines.contains(deadline) {
                recordViolation("\(id): its deadline is that of no push")
            }
            story.lease = now + policy.lease.inMilliseconds
            story.isNoted = true
            return after.state
        }
        // A job that is claimed after its deadline fails. If the time to live of its hash is not new, the job was not
        // touched.
        if after.state == .failed, after.error == "deadline", let left = after.timeToLive,
            left <= policy.keepFailed + .seconds(10)
        {
            if !story.deadlines.contains(where: { $0 <= now }) { recordViolation("\(id): its deadline had not passed") }
            (story.taken, story.behind) = (nil, nil)
            if state?.isFinal ?? true { story.beginAnew() }
            return story.ended(.failed, now, policy)
        }
        // The kept push is newer than the pause behind the cancel, so the pause does not stop it.
        if state == .running, after.isKept, after.behind == nil, let pause = story.behind,
            story.pushed > pause.timestamp || !story.isTimed
        {
            story.behind = nil
        }
        // A push was claimed that the waiting operation stops.
        if state?.isFinal ?? true, let stop = story.taken,
            state == nil && (after.state != nil || after.want != stop.request.rawValue) || after.state == .paused
        {
            story.beginAnew()
            // A push that is newer than the removal is stopped by the pause behind the removal.
            if state == nil, after.state == .paused, let pause = story.behind,
                story.pushed > stop.timestamp || !story.isTimed
            {
                story.behind = nil
                return story.stopped(by: pause, now, policy)
            }
            let stopped = story.stopped(by: stop, now, policy)
            guard let pause = story.behind else { return stopped }
            story.behind = nil
            return story.apply(pause, in: stopped, isWaiting: after.want == "paused", now, policy)
        }
        return state
    }

    /// Checks what must hold for a job at any time.
    private mutating func check(_ id: String, _ story: Story, _ before: Facts) {
        let facts = story.facts
        if facts.want != story.taken?.request.rawValue {
            recordViolation(
                "\(id) is \(facts) with the request \(facts.want ?? "none"), not \(String(describing: story.taken))")
        }
        if facts.behind != story.behind?.request.rawValue {
            recordViolation("\(id) is \(facts), not with \(String(describing: story.behind)) behind")
        }
        if facts.isKept, facts.want == nil {
            recordViolation("\(id) is \(facts), and no request waits before the kept push")
        }
        if let state = facts.state, !state.isFinal, (facts.crashes, facts.attempt) != (story.losses, story.attempts) {
            recordViolation(
                "\(id) is \(facts) with \(facts.crashes) crashes and \(facts.attempt) attempts, not \(story.losses) and \(story.attempts)"
            )
        }
        let left = story.expiry.map { Duration.milliseconds($0 - now) }
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
