package import HaulContract
import Synchronization

/// The checkpoints of one run: one at a time, when it is due, and none after the run's end.
package final class Checkpoints: Sendable {
    private struct State {
        var pace = CheckpointPace()
        var current: Task<Void, Never>?
        var hasEnded = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Begins one if it is due and none is under way.
    ///
    /// - Parameters:
    ///   - interval: The time after which one is due; without it only bytes make it so.
    ///   - known: The generation of the partial file that the caller knows of.
    ///   - found: Told where the partial file is once there is one of another generation. It says whether `done` is to be called
    ///     for that, too.
    ///   - done: Told where a run may go on, if anything is new, what the checkpoint was due for, and how long it took. The next
    ///     one waits for it.
    /// - Returns: What has begun.
    package func beginIfDue(
        of activity: any Activity, interval: Duration?, known: String?, found: (ResumePoint) -> Bool,
        done: @escaping @Sendable (ResumePoint?, CheckpointPace.Due?, Duration) async -> Void
    ) -> CheckpointPace.Due? {
        let moved = activity.moved
        let place = activity.place(otherThan: known)
        return state.withLock { state in
            guard state.current == nil, !state.hasEnded else { return nil }
            let isWanted = place.map(found) ?? false
            let due = state.pace.next(arrived: moved, interval: interval)
            guard due != nil || isWanted else { return nil }
            state.current = Task(executorPreference: activity.executor) {
                let begun = ContinuousClock.now
                let point = due == nil ? nil : await activity.checkpoint()
                if due != nil, point == nil || activity.hasMoreToTell { self.state.withLock { $0.pace.takeBack() } }
                await done(point, due, .now - begun)
                self.state.withLock { $0.current = nil }
            }
            return due
        }
    }

    /// Waits for the one that is under way. There are none after it.
    package func end() async {
        let current = state.withLock { state in
            state.hasEnded = true
            return state.current
        }
        await current?.value
    }
}
