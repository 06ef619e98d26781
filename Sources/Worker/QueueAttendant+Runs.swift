import HaulActivities
import HaulBus
import HaulMetrics
import HaulRedis
import Synchronization

// What runs here: from the claim to the settling.
extension QueueAttendant {
    func enter(_ running: RunningJob, _ activity: any Activity) {
        let isFirst = state.withLock { state in
            state.ledger.enter(running.run.token, Entry(running: running, activity: activity))
            defer { state.isCheckpointing = true }
            return !state.isCheckpointing
        }
        if isFirst { Task { await checkpoint() } }
    }

    /// While there are runs: ends those whose deadline has passed, and makes a checkpoint of each every 32 MiB and every second.
    /// One task does it for all of them. With very many both the looks and the checkpoints become rarer, and the checkpoints
    /// that only time asks for take turns, so that they do not drown the disk.
    private func checkpoint() async {
        while true {
            try? await Task.sleep(for: .milliseconds(min(1000, max(100, 5 * runningCount))))
            let runs = state.withLock { state in
                state.isCheckpointing = !state.ledger.runs.isEmpty
                return Array(state.ledger.runs.values)
            }
            if runs.isEmpty { return }
            var turns = CheckpointTurns(runs: runs.count)
            for entry in runs {
                entry.running.stopIfOverdue()
                turns.note(
                    entry.running.checkpointIfDue(
                        entry.activity, interval: turns.interval, took: { self.figures.checkpoints.record($0) },
                        hurry: { self.hurry() }))
            }
        }
    }

    /// The run has ended; until it is settled or forgotten its claim is still ours.
    func leave(_ running: RunningJob, _ activity: any Activity) {
        let moved = activity.moved
        state.withLock { state in
            state.ledger.leave(running.run.token)
            state.moved += moved
        }
    }

    /// A claim that is settled, or another's.
    func forget(_ run: Run) { state.withLock { $0.ledger.forget(run.token) } }

    /// The worker is to end. `sparing`: there is time for what cannot be done once more.
    func stopForShutdown(sparing: Bool) {
        for entry in state.withLock({ Array($0.ledger.runs.values) }) where !(sparing && entry.activity.mustGoOn) {
            entry.running.stop(.shutdown)
        }
    }

    var running: [RunningJob] { state.withLock { $0.ledger.runs.values.map(\.running) } }
    var runningCount: Int { state.withLock { $0.ledger.runs.count } }

    /// What Redis answered to the end of a run.
    struct Settled {
        /// False if the run was no longer ours.
        var isOurs = false
        /// The next claim, if one was asked for and given.
        var next: Claim?
        /// The queue had none.
        var isEmpty = false
    }

    /// Tells Redis how a run ended, until Redis has heard it; a settle may be sent again.
    func settle(_ end: RunEnd, wantsNext: Bool) async -> Settled {
        let begun = ContinuousClock.now
        defer { forget(end.run) }
        var next = wantsNext ? Token.make() : nil
        while true {
            do {
                next = state.withLock { state in
                    guard let next, state.ledger.begin([next]) else { return nil }
                    return next
                }
                let reply = try await settler.send(end, as: identity, next: next)
                noteSuccess(of: .settling)
                figures.settling.record(since: begun)
                if end.settlement.isCompleted { replicaWait?.note() }
                let claim = reply.next.flatMap(accept)
                if claim == nil, let next { state.withLock { $0.ledger.forget(next) } }
                return Settled(isOurs: reply.isOurs, next: claim, isEmpty: reply.next?.isEmpty ?? false)
            } catch {
                // The claim of a settle whose reply was lost is put back by the next registration.
                state.withLock { $0.ledger.lose(next.map { [$0] } ?? []) }
                next = nil
                if isOutOfTime {
                    state.withLock { $0.unsettled += 1 }
                    return Settled()
                }
                await pause(after: error, while: .settling)
                hurry()
            }
        }
    }
}
