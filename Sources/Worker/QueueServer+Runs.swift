import HaulActivities
import HaulBus
import HaulMetrics
import HaulRedis
import Synchronization

// The active runs, from claim to settle.
extension QueueServer {
    func enter(_ running: RunningJob, _ activity: any Activity) {
        let isFirst = state.withLock { state in
            state.ledger.enter(running.run.token, Entry(running: running, activity: activity))
            defer { state.isCheckpointing = true }
            return !state.isCheckpointing
        }
        if isFirst { Task { await checkpoint() } }
    }

    /// While there are runs: stops those whose deadline has passed, and makes a checkpoint of each every 32 MiB and
    /// every second. One task does this for all runs. If there are very many, the passes and the checkpoints are rarer,
    /// and checkpoints that are due only by time take turns, so that they do not overload the disk.
    private func checkpoint() async {
        while true {
            try? await Task.sleep(for: .milliseconds(min(1000, max(100, 5 * runningCount))))
            let runs = state.withLock { state in
                state.isCheckpointing = !state.ledger.runs.isEmpty
                return Array(state.ledger.runs.values)
            }
            if runs.isEmpty { return }
            var turns = CheckpointBudget(runs: runs.count)
            for entry in runs {
                entry.running.stopIfOverdue()
                turns.record(
                    entry.running.checkpointIfDue(
                        entry.activity, interval: turns.interval, took: { self.metrics.checkpoints.record($0) },
                        hurry: { self.hurry() }))
            }
        }
    }

    /// The run has ended. Its claim is ours until it is settled or forgotten.
    func leave(_ running: RunningJob, _ activity: any Activity) {
        state.withLock { state in
            state.ledger.leave(running.run.token)
            state.bytes.add(activity)
        }
    }

    /// The claim is settled, or another worker has it.
    func forget(_ run: Run) { state.withLock { $0.ledger.forget(run.token) } }

    /// Stops the runs at shutdown. `sparing`: there is still time, so runs that cannot be repeated go on.
    func stopForShutdown(sparing: Bool) {
        for entry in state.withLock({ Array($0.ledger.runs.values) })
        where !(sparing && entry.activity.mustNotBeInterrupted) {
            entry.running.stop(.shutdown)
        }
    }

    var running: [RunningJob] { state.withLock { $0.ledger.runs.values.map(\.running) } }
    var runningCount: Int { state.withLock { $0.ledger.runs.count } }

    /// Redis' reply to a settle.
    struct Settled {
        /// False if another worker has the job.
        var isOurs = false
        /// The next claim, if one was requested and made.
        var next: Claim?
        /// The queue had no job.
        var isEmpty = false
    }

    /// Settles a run, and tries again until Redis replies or the grace time has ended. A settle is idempotent.
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
                recordSuccess(of: .settling)
                metrics.settling.record(since: begun)
                if end.settlement.isCompleted { replicaWait?.record() }
                let claim = reply.next.flatMap(accept)
                if claim == nil, let next { state.withLock { $0.ledger.forget(next) } }
                return Settled(isOurs: reply.isOurs, next: claim, isEmpty: reply.next?.isEmpty ?? false)
            } catch {
                // If the reply was lost, the next registration puts back the claim that the settle may have made.
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
