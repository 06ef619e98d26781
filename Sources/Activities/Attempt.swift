import HaulContract
import HaulExecutors
import Synchronization

/// One attempt at a job, from the start of its activity to its end: its phase, and its checkpoints, which are made one
/// at a time. A worker, `haul get` and `haul put` all run activities with it.
package final class Attempt: Sendable {
    private struct State {
        var phase = RunPhase.claimed
        /// nil before the activity has begun and after it has ended.
        var active: (activity: any Activity, io: RunIO)?
        var task: Task<ActivityResult, Never>?
        var schedule = CheckpointSchedule()
        var checkpoint: Task<Void, Never>?
        /// The generation that the host knows from this attempt.
        var generation: String?
        var last = ActivityProgress()
    }

    private let state = Mutex(State())

    package init() {}

    /// Runs the activity. Its host knows all of its checkpoints when this returns; no other one begins.
    package func run(_ activity: any Activity, _ io: RunIO) async -> ActivityResult {
        let task = Task(executorPreference: activity.executor) { await activity.run() }
        let action = state.withLock { state in
            (state.active, state.task) = ((activity, io), task)
            return state.phase.begin()
        }
        if action == .cancel { task.cancel() }
        let result = await task.value
        let checkpoint = state.withLock { state in
            (state.active, state.task, state.last) = (nil, nil, result.progress)
            state.phase.end()
            return state.checkpoint
        }
        await checkpoint?.value
        return result
    }

    /// The same. Cancelling the caller's task stops the attempt.
    package func runUntilCancelled(_ activity: any Activity, _ io: RunIO) async -> ActivityResult {
        await withTaskCancellationHandler {
            await run(activity, io)
        } onCancel: {
            stop(.shutdown)
        }
    }

    /// Stops the attempt. True if this reason counts from now on.
    @discardableResult
    package func stop(_ reason: RunPhase.StopReason) -> Bool {
        let (result, task) = state.withLock { ($0.phase.stop(reason), $0.task) }
        if result.action == .cancel { task?.cancel() }
        return result.isNew
    }

    package var stopReason: RunPhase.StopReason? { state.withLock { $0.phase.stopReason } }

    package var progress: ActivityProgress {
        let (active, last) = state.withLock { ($0.active, $0.last) }
        return active?.activity.progress() ?? last
    }

    package var mustNotBeInterrupted: Bool { state.withLock { $0.active }?.activity.mustNotBeInterrupted ?? false }

    /// False while the attempt only waits for a connection to its host.
    package var isActive: Bool { waitingSince == nil }

    /// Whether the attempt has waited for a connection to its host for a second or longer.
    package var isWaitingForHost: Bool { waitingSince.map { monotonicNanoseconds() >= $0 + 1_000_000_000 } ?? false }

    private var waitingSince: UInt64? { state.withLock { $0.active }?.io.waitingSince }

    /// Begins a checkpoint if one is due and none is in progress. Also reports the location of a new partial file, so
    /// that whoever ends the job later knows what to remove.
    ///
    /// - Parameter interval: The time after which a checkpoint is due. nil: only bytes make one due.
    /// - Returns: What was due; nil if no checkpoint has begun.
    package func checkpointIfDue(interval: Duration?) -> CheckpointSchedule.Due? {
        guard let (activity, io) = state.withLock({ $0.checkpoint == nil ? $0.active : nil }) else { return nil }
        let (location, transferred) = (io.takeLocation(), activity.progress().transferred)
        return state.withLock { state in
            guard state.checkpoint == nil, state.active != nil else { return nil }
            let due = state.schedule.next(arrived: transferred, interval: interval)
            guard due != nil || location != nil else { return nil }
            state.checkpoint = Task(executorPreference: activity.executor) {
                if let location, self.isNew(location) { await io.record(location, isUrgent: true, took: nil) }
                if let due { await self.checkpoint(activity, io, due) }
                self.state.withLock { $0.checkpoint = nil }
            }
            return due
        }
    }

    private func checkpoint(_ activity: any Activity, _ io: RunIO, _ due: CheckpointSchedule.Due) async {
        let begun = ContinuousClock.now
        let (point, isPartial) = await activity.checkpoint()
        state.withLock { state in
            if point == nil || isPartial { state.schedule.markStillDue() }
            state.generation = point?.generation ?? state.generation
        }
        if let point { await io.record(point, isUrgent: due == .urgent, took: .now - begun) }
    }

    /// Whether no checkpoint has named this generation yet. A location names no durable bytes, so it must not replace a
    /// checkpoint.
    private func isNew(_ location: ResumePoint) -> Bool {
        state.withLock { state in
            defer { state.generation = location.generation }
            return state.generation != location.generation
        }
    }
}
