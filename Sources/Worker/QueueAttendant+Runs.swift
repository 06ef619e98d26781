import HaulActivities
import HaulBus
import HaulRedis
import Logging
import Synchronization

// What runs here: from the claim to the settling.
extension QueueAttendant {
    func enter(_ running: RunningJob, _ activity: any Activity) {
        let isFirst = state.withLock { state in
            state.pending.remove(running.run.token)
            state.running[running.run.token] = running
            state.activities[running.run.token] = activity
            defer { state.isCheckpointing = true }
            return !state.isCheckpointing
        }
        if isFirst { Task { await checkpoint() } }
    }

    /// While there are runs: an end for those whose deadline has passed, and a checkpoint of each every 32 MiB and every second. One task looks after all of them; with very
    /// many both the looks and the checkpoints become rarer, and those that time alone asks for take turns, so that they do not
    /// drown the disk.
    private func checkpoint() async {
        while true {
            try? await Task.sleep(for: .milliseconds(min(1000, max(100, 5 * runningCount))))
            let runs = state.withLock { state in
                state.isCheckpointing = !state.running.isEmpty
                return state.running.values.map { ($0, state.activities[$0.run.token]) }
            }
            if runs.isEmpty { return }
            var turns = CheckpointTurns(runs: runs.count)
            for case (let running, let activity?) in runs {
                running.stopIfOverdue()
                turns.note(running.checkpointIfDue(activity, interval: turns.interval) { self.hurry() })
            }
        }
    }

    /// The run has ended; until it is settled or forgotten its claim is still ours.
    func leave(_ running: RunningJob) {
        state.withLock { state in
            state.pending.insert(running.run.token)
            state.running[running.run.token] = nil
            state.activities[running.run.token] = nil
        }
    }

    /// A claim that is settled, or another's.
    func forget(_ run: Run) { state.withLock { _ = $0.pending.remove(run.token) } }

    var running: [RunningJob] { state.withLock { Array($0.running.values) } }
    var runningCount: Int { state.withLock { $0.running.count } }

    /// Tells Redis how a run ended, until Redis has heard it; a settle may be sent again. Returns the next claim, if one
    /// was asked for and given; `isEmpty` if the queue had none.
    func settle(
        _ run: Run, as settlement: Settlement, report: RunReport, isFirst: Bool = false, wantsNext: Bool
    ) async -> (isOurs: Bool, next: Claim?, isEmpty: Bool) {
        defer { forget(run) }
        var next = wantsNext ? Token.make() : nil
        while true {
            do {
                next = state.withLock { state in
                    guard let next, state.mayClaim else { return nil }
                    state.pending.insert(next)
                    return next
                }
                let reply = try await settler.settle(
                    RunEnd(
                        run, settlement, report, isFirst: isFirst, awaitsReplicas: replicaWait != nil),
                    as: identity, next: next)
                if settlement.isCompleted { replicaWait?.note() }
                let claim = reply.next.flatMap(accept)
                if claim == nil, let next { state.withLock { _ = $0.pending.remove(next) } }
                return (reply.isOurs, claim, reply.next?.isEmpty ?? false)
            } catch {
                // The claim of a settle whose reply was lost is put back by the next registration.
                if let next { state.withLock { _ = $0.pending.remove(next) } }
                next = nil
                state.withLock { $0.isInDoubt = true }
                if isOutOfTime {
                    state.withLock { $0.unsettled += 1 }
                    log.warning(
                        "not settled within the grace time: it runs again elsewhere", metadata: ["id": "\(run.id)"])
                    return (false, nil, false)
                }
                await pause(after: error, while: "settling a job")
                hurry()
            }
        }
    }
}
