import HaulActivities
import HaulBus
import Synchronization

/// The active runs of a queue, by the tokens of their claims.
final class RunTable: Sendable {
    private struct State {
        var runs: [String: RunningJob] = [:]
        var isChecking = false
        /// The bytes of ended runs.
        var bytes = BodyBytes()
        /// Runs that have ended and whose settles Redis has refused so far, by their tokens: their jobs, and whether a tick
        /// has said that another worker has the job.
        var refused: [String: (run: Run, isFenced: Bool)] = [:]
        /// Runs that could not be settled within the grace time.
        var unsettled = 0
    }

    private let state = Mutex(State())

    var runs: [RunningJob] { state.withLock { Array($0.runs.values) } }
    var count: Int { state.withLock { $0.runs.count } }

    var unsettled: Int { state.withLock { $0.unsettled } }

    func recordUnsettled() { state.withLock { $0.unsettled += 1 } }

    /// Ended runs that are still to be settled. Ticks extend their leases, so that no other worker repeats their jobs.
    var refused: [Run] { state.withLock { $0.refused.values.map(\.run) } }

    func addRefused(_ run: Run) {
        state.withLock { if $0.refused[run.token] == nil { $0.refused[run.token] = (run, false) } }
    }

    func removeRefused(_ run: Run) { state.withLock { $0.refused[run.token] = nil } }

    /// A tick has said that another worker has this job, or that it has been settled.
    func fenceRefused(_ run: Run) { state.withLock { $0.refused[run.token]?.isFenced = true } }

    func isFenced(_ run: Run) -> Bool { state.withLock { $0.refused[run.token]?.isFenced ?? false } }

    func contains(_ run: Run) -> Bool { state.withLock { $0.runs[run.token] != nil } }

    /// The bytes of this queue's jobs since the worker began.
    var bytes: BodyBytes {
        let (ended, running) = state.withLock { ($0.bytes, Array($0.runs.values)) }
        return running.reduce(into: ended) { $0.add($1.attempt.progress) }
    }

    func add(_ running: RunningJob) {
        let isFirst = state.withLock { state in
            state.runs[running.run.token] = running
            defer { state.isChecking = true }
            return !state.isChecking
        }
        if isFirst { Task { await checkRuns() } }
    }

    /// Removes a run that has ended. Its bytes move to the sum in the same step, so that no scrape misses or repeats
    /// them.
    func remove(_ running: RunningJob) {
        let progress = running.attempt.progress
        state.withLock { state in
            state.runs[running.run.token] = nil
            state.bytes.add(progress)
        }
    }

    /// Stops the runs at shutdown. `sparing`: there is still time, so runs that cannot be repeated go on.
    func stopForShutdown(sparing: Bool) {
        for running in runs where !(sparing && running.attempt.mustNotBeInterrupted) {
            running.attempt.stop(.shutdown)
        }
    }

    /// While there are runs: stops those whose deadline has passed, and makes a checkpoint of each every 32 MiB and
    /// every second. One task does this for all runs. If there are very many, the passes and the checkpoints are rarer,
    /// and checkpoints that are due only by time take turns, so that they do not overload the disk.
    private func checkRuns() async {
        while true {
            try? await Task.sleep(for: .milliseconds(min(1000, max(100, 5 * count))))
            let runs = state.withLock { state in
                state.isChecking = !state.runs.isEmpty
                return Array(state.runs.values)
            }
            if runs.isEmpty { return }
            var budget = CheckpointBudget(runs: runs.count)
            for running in runs {
                running.stopIfOverdue()
                budget.record(running.attempt.checkpointIfDue(interval: budget.interval))
            }
        }
    }
}

/// Bytes of bodies that runs have received and sent, repeated ones included.
struct BodyBytes: Sendable {
    private(set) var received: Int64 = 0
    private(set) var sent: Int64 = 0

    mutating func add(_ progress: ActivityProgress) {
        if progress.isSending { sent += progress.transferred } else { received += progress.transferred }
    }
}
