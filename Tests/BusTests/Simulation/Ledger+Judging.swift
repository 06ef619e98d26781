import Contract

@testable import Bus

extension Ledger {
    /// What was called.
    enum Cause {
        case claim
        case settle([(run: Run, settlement: Settlement)])
        /// The requests that it took, by job.
        case tick([String: Story.Stop])
        case registration(worker: String, known: Set<String>, isSuccessor: Bool)

        var name: String {
            switch self {
            case .claim: "claim"
            case .settle(let ends):
                "settling " + ends.map { "\($0.run.id) as \($0.settlement.outcome)" }.joined(separator: ", ")
            case .tick(let requests): "tick with \(requests.mapValues(\.request.rawValue))"
            case .registration(let worker, _, _): "\(worker) registers"
            }
        }
    }

    /// Judges what a call has made of a job.
    mutating func judge(_ id: String, _ after: Facts, _ cause: Cause) {
        guard var story = stories[id] else { return }
        let before = story.facts
        var state = before.state
        switch cause {
        case .settle(let ends):
            for (run, settlement) in ends where run.id == id && state == .running && run.token == before.token {
                state = story.settled(as: settlement, now, policy)
            }
        case .tick(let requests):
            if let request = requests[id] {
                var applied = story
                let next = applied.apply(request, in: state, now, policy)
                // The same tick may go on: a due job joins the line, a deadline passes, a lost run is put back.
                let isIgnored =
                    after.state == state && next == state
                    ? after.want == before.want : after.state != next && after.state != request.stops
                if story.isOvertaken(request), isIgnored {
                    story.asked = nil
                } else {
                    (story, state) = (applied, next)
                }
            }
            if state == .running, after.state != .running {
                let isGone = before.worker.map(gone.contains) ?? false
                if now < story.lease || now < grace, !isGone { complain("\(id): its worker was robbed") }
                state = story.lost(now, policy)
                if state == .failed, after.error != "crash_loop" {
                    complain("\(id): \(after.error ?? "") for crash_loop")
                }
            }
            if state == .scheduled, let due = before.due, due <= now { state = .queued }
            if [.queued, .scheduled, .paused].contains(state), let deadline = after.deadline ?? before.deadline,
                deadline <= now
            {
                if after.error != "deadline" { complain("\(id): it failed with \(after.error ?? "nothing")") }
                state = story.ended(.failed, now, policy)
            }
        case .registration(let worker, let known, let isSuccessor):
            if state == .running, story.isNoted, before.worker == worker, let token = before.token,
                !known.contains(token)
            {
                state = isSuccessor ? story.lost(now, policy) : story.putBack(now, policy)
            }
        case .claim: break
        }
        switch cause {
        case .claim, .settle: state = taken(id, &story, state, after)
        case .tick, .registration: break
        }
        if after.state != state {
            complain("\(id): \(cause.name) made \(after) of \(before), and not \(state?.rawValue ?? "unknown")")
        }
        if (before.state, before.token, before.want) != (after.state, after.token, after.want) {
            tell(id, "\(cause.name): \(before) → \(after)")
        }
        story.facts = after
        check(id, story, before)
        stories[id] = story
    }

    /// What the taking of elements made of a job that is in `state`.
    private mutating func taken(
        _ id: String, _ story: inout Story, _ state: JobState?, _ after: Facts
    ) -> JobState? {
        let isBegun = after.state == .running && after.token != story.facts.token
        let isPostponed = after.state == .scheduled && state != .scheduled
        if isBegun || isPostponed {
            // One element may have been forgotten as was asked, before another one.
            if state == nil, story.taken?.request.forgets ?? false { story.forget() }
            if story.isTimed, story.demand == nil { complain("\(id): it ran again, and nobody asked for it") }
            story.taken = nil
            story.expiry = nil
            if state?.isFinal ?? true { story.beginAnew() }
            if let deadline = after.deadline, !story.deadlines.contains(deadline) {
                complain("\(id): its deadline is nobody's")
            }
            story.lease = now + policy.lease.inMilliseconds
            story.isNoted = true
            return after.state
        }
        // A job comes whose request waited for it.
        if state == nil, let stop = story.taken, after.state != nil || after.want == nil {
            story.taken = nil
            return story.stopped(by: stop, now, policy)
        }
        return state
    }

    /// What holds for a job at any time.
    private mutating func check(_ id: String, _ story: Story, _ before: Facts) {
        let facts = story.facts
        if facts.want != story.taken?.request.rawValue {
            complain(
                "\(id) is \(facts) with the request \(facts.want ?? "none"), not \(String(describing: story.taken))")
        }
        if let state = facts.state, !state.isFinal, (facts.crashes, facts.attempt) != (story.losses, story.attempts) {
            complain(
                "\(id) is \(facts) with \(facts.crashes) crashes and \(facts.attempt) attempts, not \(story.losses) and \(story.attempts)"
            )
        }
        let left = story.expiry.map { Duration.milliseconds($0 - now) }
        switch (left, facts.timeToLive) {
        case (nil, nil): break
        case (let left?, let found?):
            // Redis' own clock has run since it was set, the simulation's at another pace.
            if before.state != facts.state, found > left || found < left - .seconds(10) {
                complain("\(id) is \(facts) for \(found), not \(left)")
            }
        case (let left, let found):
            complain("\(id) is \(facts) for \(found, default: "ever"), not \(left, default: "ever")")
        }
    }
}

extension DefaultStringInterpolation {
    fileprivate mutating func appendInterpolation(_ value: Duration?, default text: String) {
        appendInterpolation(value.map { "\($0)" } ?? text)
    }
}
