import Bus
import Contract

// The contract's tables: each says in which state a job is then.

extension Story {
    /// A tick takes a request.
    mutating func apply(_ stop: Stop, in state: JobState?, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        asked = nil
        guard stop.request != .running else { return resumed(by: stop, in: state, now) }
        // What was asked for before it is no more asked for. Final jobs ignore a pause.
        let isIgnored = (state?.isFinal ?? false) && stop.request == .paused
        if !isIgnored, let asked = demand, asked <= stop.moment { demand = nil }
        switch state {
        case nil:
            taken = stop
            expiry = now + 3_600_000
            return nil
        case .running:
            taken = stop
            return state
        case .completed, .failed, .cancelled:
            guard stop.request.forgets else { return state }
            forget()
            return nil
        case .paused where stop.request == .paused: return state
        case .queued, .scheduled, .paused: return stopped(by: stop, now, policy)
        }
    }

    /// What it was to stop has been asked for anew. Whether that was taken first, or has even been done, makes no difference in
    /// the end.
    func isOvertaken(_ stop: Stop) -> Bool {
        isTimed && stop.request != .running && max(demand ?? 0, pushed) > stop.moment
    }

    private mutating func resumed(by stop: Stop, in state: JobState?, _ now: Int64) -> JobState? {
        switch state {
        case .paused, .scheduled, .failed:
            if state == .failed { beginAnew() }
            demand = stop.moment
            expiry = nil
            return .queued
        case .running where taken?.request == .paused:
            taken = nil
            demand = stop.moment
        case nil where taken != nil:
            taken = nil
            if isTimed, !element.isEmpty { demand = stop.moment }
        default: break
        }
        return state
    }

    /// A request ends what it was made for.
    mutating func stopped(by stop: Stop, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        taken = nil
        // Without a time all pushes so far were before it.
        if !isTimed { demand = nil }
        if stop.request == .paused {
            expiry = nil
            return .paused
        }
        if stop.request.forgets {
            forget()
            return nil
        }
        checkpoint = ByteIntervals()
        expiry = now + policy.keepCancelled.inMilliseconds
        return .cancelled
    }

    mutating func ended(_ state: JobState, _ now: Int64, _ policy: QueuePolicy) -> JobState {
        demand = nil
        // Then the next tick forgets it.
        if let taken, taken.request.forgets { asked = taken }
        taken = nil
        if state == .completed { checkpoint = ByteIntervals() }
        expiry = now + (state == .completed ? policy.keepCompleted : policy.keepFailed).inMilliseconds
        return state
    }

    /// Back in line, or where a request wants it.
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
        case .completed: return ended(.completed, now, policy)
        case .failed: return ended(.failed, now, policy)
        case .cancelled:
            let forgets = taken?.request.forgets ?? false
            // Its worker has heard of a request that Redis has forgotten since, with its last seconds.
            if taken == nil { demand = nil }
            return stopped(by: Stop(request: forgets ? .removed : .cancelled, moment: now), now, policy)
        case .retry, .carryOn, .parked:
            guard taken == nil else { return putBack(now, policy) }
            if case .retry = settlement { attempts += 1 }
            if case .carryOn = settlement { attempts = 0 }
            return .scheduled
        case .paused, .released: return putBack(now, policy)
        case .rejected:
            demand = nil
            forget()
            return nil
        }
    }
}
