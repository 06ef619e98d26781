import HaulBus
import HaulContract

// The tables of docs/reference/ordering.md. Each function returns the state of the job afterwards.

extension ExpectedJob {
    /// Applies an operation. `isWaiting`: in Redis the operation waits for a push now, or has just stopped one.
    mutating func apply(
        _ operation: Operation, in state: JobState?, isWaiting: Bool, _ now: Int64, _ policy: QueuePolicy
    ) -> JobState? {
        pendingOperation = nil
        guard operation.kind != .running else { return resumed(by: operation, in: state, now) }
        let isFinal = state?.isFinal ?? false
        if operation.isTimed, operation.timestamp < settled, state == nil || isFinal && !operation.kind.forgets {
            return state
        }
        // A push or an operation before this one need not start a run any more.
        if let since = pendingSince, since <= operation.timestamp { pendingSince = nil }
        switch state {
        case nil:
            // A removal of an unknown job settles the pushes before it. A newer cancel waits for the pushes behind the
            // removal.
            let before = want.flatMap { $0.kind.forgets && operation.kind != .paused ? $0 : nil }
            wait(operation)
            if let before {
                settled = max(settled, before.timestamp)
                want = operation
            }
            expiry = now + 3_600_000
            return nil
        case .running:
            wait(operation)
            return state
        case .completed, .failed, .cancelled:
            if operation.kind.forgets {
                forget(by: operation, now)
                return nil
            }
            settled = max(settled, operation.kind == .paused ? 0 : operation.timestamp)
            // A pause waits for pushes before it. A pause without a time may be older than what was settled.
            want = isWaiting && operation.kind == .paused ? operation : nil
            return state
        case .paused where operation.kind == .paused:
            settled = max(settled, operation.timestamp)
            return state
        case .queued, .scheduled, .paused: return stopped(by: operation, now, policy)
        }
    }

    /// Records an operation that waits for the run to receive it, or for the job to come. An operation that ends the
    /// job is not revoked, and a removal overrides a cancel.
    private mutating func wait(_ operation: Operation) {
        guard let before = want, before.kind != .paused else { return want = operation }
        if operation.kind == .paused { return wantNext = operation }
        wantNext = nil
        want = operation
        if before.kind.forgets, operation.kind != .deleted, !facts.isKeptPushAJob { want!.kind = before.kind }
    }

    /// Applies the push that was kept behind an operation which is done now, and then the pause behind the push.
    mutating func follow(_ state: JobState?, _ after: Facts, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        var state = state
        let pause = wantNext
        wantNext = nil
        if facts.isKept {
            // The same call may have claimed the job already, or failed it if its deadline had passed.
            let isClaimed = after.state == .running && after.token != facts.token
            let hasEnded = after.state == .failed && after.error == "deadline" && deadlines.contains { $0 <= now }
            let isBegun =
                [.queued, .scheduled].contains(after.state) || isClaimed || hasEnded
                || pause != nil && after.state == .paused
            if isBegun, state != .queued {
                if state?.isFinal ?? true { restart() }
                expiry = nil
                if isTimed { pendingSince = pendingSince ?? lastPush }
                state = after.state == .scheduled ? .scheduled : .queued
            }
        }
        guard let pause else { return state }
        // An operation that still waits for a tick is newer than the pause.
        let waiting = pendingOperation
        defer { pendingOperation = waiting }
        return apply(pause, in: state, isWaiting: after.shows(.paused), now, policy)
    }

    /// Whether a push came after this operation. Then the result is the same whether the push or the operation was
    /// applied first.
    func isOvertaken(_ operation: Operation) -> Bool {
        isTimed && operation.kind != .running && max(pendingSince ?? 0, lastPush) > operation.timestamp
    }

    private mutating func resumed(by operation: Operation, in state: JobState?, _ now: Int64) -> JobState? {
        if operation.isTimed, operation.timestamp < max(want?.timestamp ?? 0, settled) { return state }
        if state?.isFinal ?? false { wantNext = nil }
        switch state {
        case .paused, .scheduled, .failed:
            if state == .failed { restart() }
            want = nil
            pendingSince = operation.timestamp
            expiry = nil
            return .queued
        case .running where wantNext != nil: wantNext = nil
        case .completed, .cancelled:
            // The push that the pause waited for runs, if it is newer than what ended the job.
            if want?.kind == .paused { revivePush(by: operation, after: nil) }
            want = nil
        case .running where want?.kind == .paused:
            want = nil
            pendingSince = operation.timestamp
        case nil where wantNext != nil:
            wantNext = nil
            revivePush(by: operation, after: want?.timestamp)
        case nil where want?.kind == .paused:
            want = nil
            // The tombstone goes, unless it records what was settled.
            if settled == 0 { expiry = nil }
            revivePush(by: operation, after: nil)
        default: break
        }
        return state
    }

    /// A waiting pause is revoked. A push that waits runs, unless it is older than something else that stops it.
    private mutating func revivePush(by operation: Operation, after timestamp: Int64?) {
        if isTimed, lastPush > max(timestamp ?? 0, settled, lastEnd) { pendingSince = operation.timestamp }
    }

    /// Stops the job by an operation.
    mutating func stopped(by operation: Operation, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        want = nil
        settled = max(settled, operation.timestamp)
        // If pushes have no time, all of them so far were before the operation.
        if !isTimed { pendingSince = nil }
        if operation.kind == .paused {
            expiry = nil
            return .paused
        }
        if operation.kind.forgets {
            // The pause behind the removal still counts.
            let pause = wantNext
            forget(by: operation, now)
            wantNext = pause
            return nil
        }
        checkpoint = ByteIntervals()
        expiry = now + policy.keepCancelled.inMilliseconds
        return .cancelled
    }

    mutating func ended(_ state: JobState, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        // A push in this millisecond comes after the end, unless a worker has taken it before.
        let until = now - 1
        end = (max(pendingSince ?? 0, lastPush), until, settled)
        lastEnd = until
        pendingSince = nil
        settled = until
        if let want, want.kind.forgets { return stopped(by: want, now, policy) }
        want = nil
        if state == .completed { checkpoint = ByteIntervals() }
        expiry = now + (state == .completed ? policy.keepCompleted : policy.keepFailed).inMilliseconds
        return state
    }

    /// Puts the job back in the queue, unless an operation stops it.
    mutating func requeued(_ now: Int64, _ policy: QueuePolicy) -> JobState? {
        if let want { return stopped(by: want, now, policy) }
        return .queued
    }

    mutating func lost(_ now: Int64, _ policy: QueuePolicy) -> JobState? {
        guard let activeToken, activeToken == facts.token else { return requeued(now, policy) }
        let isToEnd = want.map { $0.kind != .paused } ?? false
        if losses >= policy.crashLimit, !isToEnd { return ended(.failed, now, policy) }
        losses += 1
        return requeued(now, policy)
    }

    mutating func settled(as settlement: Settlement, _ now: Int64, _ policy: QueuePolicy) -> JobState? {
        switch settlement {
        case .completed, .responded: return ended(.completed, now, policy)
        case .failed: return ended(.failed, now, policy)
        case .cancelled:
            let forgets = want?.kind.forgets ?? false
            // The worker has received an operation that Redis has lost since, in a rollback.
            if want == nil { pendingSince = nil }
            let timestamp = want?.timestamp ?? now
            return stopped(by: Operation(kind: forgets ? .removed : .cancelled, timestamp: timestamp), now, policy)
        case .retry, .retryAfterProgress, .parked:
            guard want == nil else { return requeued(now, policy) }
            if case .retry = settlement { attempts += 1 }
            if case .retryAfterProgress = settlement { attempts = 0 }
            return .scheduled
        case .paused, .released: return requeued(now, policy)
        case .rejected:
            pendingSince = nil
            let pause = wantNext
            forget(tombstone: nil)
            wantNext = pause
            return nil
        }
    }
}
