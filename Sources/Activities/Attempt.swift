import HaulContract
import HaulExecutors
import Synchronization

/// One attempt at a job, from the start of its activity to its end: why it stops, and its checkpoints, which are made
/// one at a time. A worker, `haul get` and `haul put` all run activities with it.
package final class Attempt: Sendable {
    /// Why an attempt ends before its activity is done.
    package enum StopReason: Sendable {
        case paused, cancelled, shutdown, deadline
        /// The run has taken as long as the operator allows.
        case timeLimit
        /// Another worker has the lease: this run settles nothing and touches no file.
        case fenced
    }

    private struct State {
        var stopReason: StopReason?
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
        let isStopped = state.withLock { state in
            (state.active, state.task) = ((activity, io), task)
            return state.stopReason != nil
        }
        if isStopped { task.cancel() }
        return await end(await task.value)
    }

    /// The same in the caller's task, which costs less than a task of its own. Only cancelling that task stops it.
    package func runUntilCancelled(_ activity: any Activity, _ io: RunIO) async -> ActivityResult {
        await withTaskCancellationHandler {
            state.withLock { $0.active = (activity, io) }
            return await end(await withTaskExecutorPreference(activity.executor) { await activity.run() })
        } onCancel: {
            stop(.shutdown)
        }
    }

    private func end(_ result: ActivityResult) async -> ActivityResult {
        let (checkpoint, isStopping) = state.withLock { state in
            (state.active, state.task, state.last) = (nil, nil, result.progress)
            return (state.checkpoint, state.stopReason != nil)
        }
        // The last checkpoint, which follows, has all that this one has, and the time for it may be short.
        if isStopping { checkpoint?.cancel() }
        await checkpoint?.value
        return result
    }

    /// Stops the attempt, at once if its activity has not begun. The first reason counts, but `fenced` overrules all
    /// others, even after the end. True if this reason counts from now on.
    @discardableResult
    package func stop(_ reason: StopReason) -> Bool {
        let (isNew, task) = state.withLock { state in
            let isNew = state.stopReason == nil || reason == .fenced && state.stopReason != .fenced
            if isNew { state.stopReason = reason }
            return (isNew, state.task)
        }
        if isNew { task?.cancel() }
        return isNew
    }

    package var stopReason: StopReason? { state.withLock { $0.stopReason } }

    package var progress: ActivityProgress {
        let (active, last) = state.withLock { ($0.active, $0.last) }
        return active?.activity.progress() ?? last
    }

    package var mustNotBeInterrupted: Bool { state.withLock { $0.active }?.activity.mustNotBeInterrupted ?? false }

    /// False while the attempt only waits for a connection to its host.
    package var isActive: Bool { wait?.reason != .host }

    /// What the attempt has waited for, for a second or longer; nil if it does not wait.
    package var waitsFor: RunWait.Reason? {
        wait.flatMap { monotonicNanoseconds() >= $0.since + 1_000_000_000 ? $0.reason : nil }
    }

    private var wait: RunWait? { state.withLock { $0.active }?.io.wait }

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
                if let location, self.isNew(location) { await io.record(location, isUrgent: true, duration: nil) }
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
        if let point { await io.record(point, isUrgent: due == .urgent, duration: .now - begun) }
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
