package import HaulContract
import Synchronization

/// Makes the checkpoints of one run: each when it is due, one at a time, and none after the run's end.
package final class Checkpoints: Sendable {
    private struct State {
        var pace = CheckpointSchedule()
        var current: Task<Void, Never>?
        var hasEnded = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Begins a checkpoint if one is due and none is in progress.
    ///
    /// - Parameters:
    ///   - interval: The time after which a checkpoint is due. nil: only bytes make one due.
    ///   - known: The generation of the partial file that the caller knows.
    ///   - found: Called with the location of the partial file if its generation is not `known`. The result says
    ///     whether `done` must be called for that, too.
    ///   - done: Called with where a run can continue (nil if nothing is new), what was due, and how long the
    ///     checkpoint took. The next checkpoint waits for it.
    /// - Returns: What was due; nil if no checkpoint has begun.
    package func beginIfDue(
        of activity: any Activity, interval: Duration?, known: String?, found: (ResumePoint) -> Bool,
        done: @escaping @Sendable (ResumePoint?, CheckpointSchedule.Due?, Duration) async -> Void
    ) -> CheckpointSchedule.Due? {
        let transferred = activity.transferred
        let location = activity.location(otherThan: known)
        return state.withLock { state in
            guard state.current == nil, !state.hasEnded else { return nil }
            let isWanted = location.map(found) ?? false
            let due = state.pace.next(arrived: transferred, interval: interval)
            guard due != nil || isWanted else { return nil }
            state.current = Task(executorPreference: activity.executor) {
                let begun = ContinuousClock.now
                let point = due == nil ? nil : await activity.checkpoint()
                if due != nil, point == nil || activity.hasMoreToReport {
                    self.state.withLock { $0.pace.markStillDue() }
                }
                await done(point, due, .now - begun)
                self.state.withLock { $0.current = nil }
            }
            return due
        }
    }

    /// Waits for the checkpoint in progress. No other one begins.
    package func end() async {
        let current = state.withLock { state in
            state.hasEnded = true
            return state.current
        }
        await current?.value
    }
}
