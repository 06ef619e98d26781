import HaulBus
import HaulContract

// The tables of docs/reference/ordering.md. Each function returns the state of the job afterwards.

extension Story {
    /// Applies an operation. `isWaiting`: in Redis the operation waits for a push now, or has just stopped one.
    mutating func apply(
        _ stop: Stop, in state: JobState?, isWaiting: Bool, _ now: Int64, _ policy: QueuePolicy
    ) -> JobState? {
        asked = nil
        guard stop.request != .running else { return resumed(by: stop, in: state, now) }
        let isFinal = state?.isFinal ?? false
        if stop.isTimed, stop.timestamp < settled, state == nil || isFinal && !stop.request.forgets { return state }
        // What was asked for before the operation need not be done any more.
        if let asked = demand, asked <= stop.timestamp { demand = nil }
        switch state {
        case nil:
            // A removal of an unknown job settles the pushes before it. A newer cancel waits for the pushes behind the
            // removal.
            let before = taken.flatMap { $0.request.forgets && stop.request != .paused ? $0 : nil }
            wait(stop)
            if let before {
                settled = max(settled, before.timestamp)
                taken = stop
            }
            expiry = now + 3_600_000
            return nil
        case .running:
            wait(stop)
            return state
        case .completed, .failed, .cancelled:
            if stop.request.forgets {
                forget(by: stop, now)
                return nil
            }
            settled = max(settled, stop.request == .paused ? 0 : stop.timestamp)
            // A pause waits for pushes before it. A pause without a time may be older than what was settled.
            taken = isWaiting && stop.request == .paused ? stop : nil
            return state
        case .paused where stop.request == .paused:
            settled = max(settled, stop.timestamp)
            return state
        case .queued, .scheduled, .paused: return stopped(by: stop, now, policy)
        }
    }

    /// Records an operation that waits for the run to receive it, or for the job to come. An operation that ends the
    /// job is not revoked, and a removal overrides a cancel.
    private mutating func wait(_ stop: Stop) {
        guard let before = taken, before.request != .paused else { return taken = stop }
        if stop.request == .paused { return behind = stop }
        behind = nil
        taken = stop
        if before.request.forgets, stop.request != .deleted, !facts.isKeptAnew { taken!.request = before.request }
    }

    /// Does the push that was kept behind an operation which is done now, and then the pause behind the push.
    mutating func follow(_ state: JobState?, _ after: Facts, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        var state = state
        let pause = behind
        behind = nil
        if facts.isKept {
            // The same call may have taken the job already, or failed it if its deadline had passed.
            let isTaken = after.state == .running && after.token != facts.token
            let isOver = after.state == .failed && after.error == "deadline" && deadlines.contains { $0 <= now }
            let isBegun =
                [.queued, .scheduled].contains(after.state) || isTaken || isOver
                || pause != nil && after.state == .paused
            if isBegun, state != .queued {
                if state?.isFinal ?? true { beginAnew() }
                expiry = nil
                if isTimed { demand = demand ?? pushed }
                state = after.state == .scheduled ? .scheduled : .queued
            }
        }
        guard let pause else { return state }
        return apply(pause, in: state, isWaiting: after.shows(.paused), now, policy)
    }

    /// Whether the job was asked for again after this operation. In the end it makes no difference whether that was
    /// taken first, or has even been done.
    func isOvertaken(_ stop: Stop) -> Bool {
        isTimed && stop.request != .running && max(demand ?? 0, pushed) > stop.timestamp
    }

    private mutating func resumed(by stop: Stop, in state: JobState?, _ now: Int64) -> JobState? {
        if stop.isTimed, stop.timestamp < max(taken?.timestamp ?? 0, settled) { return state }
        if state?.isFinal ?? false { behind = nil }
        switch state {
        case .paused, .scheduled, .failed:
            if state == .failed { beginAnew() }
            taken = nil
            demand = stop.timestamp
            expiry = nil
            return .queued
        case .running where behind != nil: behind = nil
        case .completed, .cancelled:
            // The push that the pause waited for runs, if it is newer than what ended the job.
            if taken?.request == .paused { askAnew(by: stop, after: nil) }
            taken = nil
        case .running where taken?.request == .paused:
            taken = nil
            demand = stop.timestamp
        case nil where behind != nil:
            behind = nil
            askAnew(by: stop, after: taken?.timestamp)
        case nil where taken?.request == .paused:
            taken = nil
            // The tombstone goes, unless it records what was settled.
            if settled == 0 { expiry = nil }
            askAnew(by: stop, after: nil)
        default: break
        }
        return state
    }

    /// A waiting pause is revoked. A push that waits runs, unless it is older than something else that stops it.
    private mutating func askAnew(by stop: Stop, after request: Int64?) {
        if isTimed, pushed > max(request ?? 0, settled, lastEnd) { demand = stop.timestamp }
    }

    /// Stops the job by an operation.
    mutating func stopped(by stop: Stop, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        taken = nil
        settled = max(settled, stop.timestamp)
        // If pushes have no time, all of them so far were before the operation.
        if !isTimed { demand = nil }
        if stop.request == .paused {
            expiry = nil
            return .paused
        }
        if stop.request.forgets {
            // The pause behind the removal still counts.
            let pause = behind
            forget(by: stop, now)
            behind = pause
            return nil
        }
        checkpoint = ByteIntervals()
        expiry = now + policy.keepCancelled.inMilliseconds
        return .cancelled
    }

    mutating func ended(_ state: JobState, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        end = (max(demand ?? 0, pushed), now, settled)
        lastEnd = now
        demand = nil
        settled = now
        if let taken, taken.request.forgets { return stopped(by: taken, now, policy) }
        taken = nil
        if state == .completed { checkpoint = ByteIntervals() }
        expiry = now + (state == .completed ? policy.keepCompleted : policy.keepFailed).inMilliseconds
        return state
    }

    /// Puts the job back in the queue, unless an operation stops it.
    mutating func putBack(_ now: Int64, _ policy: QueuePolicy) -> JobState? {
        if let taken { return stopped(by: taken, now, policy) }
        return .queued
    }

    mutating func lost(_ now: Int64, _ policy: QueuePolicy) -> JobState? {
        guard let begun, begun == facts.token else { return putBack(now, policy) }
        if losses >= policy.crashLimit { return ended(.failed, now, policy) }
        losses += 1
        return putBack(now, policy)
    }

    mutating func settled(as settlement: Settlement, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        switch settlement {
        case .completed, .responded: return ended(.completed, now, policy)
        case .failed: return ended(.failed, now, policy)
        case .cancelled:
            let forgets = taken?.request.forgets ?? false
            // The worker has received an operation that Redis has lost since, in a rollback.
            if taken == nil { demand = nil }
            let timestamp = taken?.timestamp ?? now
            return stopped(by: Stop(request: forgets ? .removed : .cancelled, timestamp: timestamp), now, policy)
        case .retry, .retryAfterProgress, .parked:
            guard taken == nil else { return putBack(now, policy) }
            if case .retry = settlement { attempts += 1 }
            if case .retryAfterProgress = settlement { attempts = 0 }
            return .scheduled
        case .paused, .released: return putBack(now, policy)
        case .rejected:
            demand = nil
            let pause = behind
            forget(tombstone: nil)
            behind = pause
            return nil
        }
    }
}
