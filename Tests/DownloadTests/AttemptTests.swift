import HaulContract
import HaulExecutors
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// Moves 40 MiB at once, so that a checkpoint is due, and then runs until it is stopped or told to end.
private final class Mover: Activity {
    let io: RunIO
    let checkpoints = Shared(0)
    /// Answers `checkpoint()` once it yields.
    private let (gate, open) = AsyncStream<Void>.makeStream()
    private let (ends, end) = AsyncStream<Void>.makeStream()

    init(_ io: RunIO) { self.io = io }

    var executor: any TaskExecutor { globalConcurrentExecutor }

    func run() async -> ActivityResult {
        for await _ in ends {}
        return ActivityResult(Task.isCancelled ? .stopped : .failed(Failure(.io, "ended")), progress())
    }

    func progress() -> ActivityProgress {
        var progress = ActivityProgress()
        progress.transferred = 40 << 20
        return progress
    }

    func checkpoint() async -> (point: ResumePoint?, isPartial: Bool) {
        checkpoints.change { $0 += 1 }
        for await _ in gate { break }
        return (Self.point("g", 0..<9), false)
    }

    func answerCheckpoint() { open.yield() }
    func finish() { end.finish() }

    static func point(_ generation: String, _ offsets: Range<Int64>? = nil) -> ResumePoint {
        ResumePoint(
            generation: generation, store: "s", file: "f", entity: Entity(), source: "u",
            offsets: ByteIntervals(offsets.map { [$0] } ?? []))
    }
}

/// Makes its last checkpoint when the store answers, unless its task is cancelled before.
private final class SlowRemainder: RunRemainder {
    let hasBegun = Shared(false)
    private let (answers, answer) = AsyncStream<Void>.makeStream()

    func finish() { answer.yield() }

    func finalCheckpoint() async -> ResumePoint? {
        hasBegun.change { $0 = !Task.isCancelled }
        for await _ in answers { return Task.isCancelled ? nil : Mover.point("g", 0..<9) }
        return nil
    }

    func discard(soon: Bool) async {}
}

private final class Recorder: RunHost {
    let points = Shared<[ResumePoint]>([])
    func report(_ event: ActivityEvent) {}
    func record(_ point: ResumePoint, isUrgent: Bool, duration: Duration?) async { points.change { $0.append(point) } }
}

@Suite struct AttemptTests {
    private let host = Recorder()
    private let attempt = Attempt()

    private func begin() async throws -> (Mover, Task<ActivityResult, Never>) {
        let io = RunIO(host)
        let mover = Mover(io)
        let task = Task { await attempt.run(mover, io) }
        try await eventually("the attempt to begin") { attempt.progress.transferred > 0 }
        return (mover, task)
    }

    @Test("checkpoints are made one at a time, and the end of an attempt waits for the last one")
    func oneAtATime() async throws {
        let (mover, task) = try await begin()
        #expect(attempt.checkpointIfDue(interval: nil) == .urgent)
        try await eventually("a checkpoint") { mover.checkpoints.value == 1 }
        #expect(attempt.checkpointIfDue(interval: .zero) == nil)
        mover.finish()
        // The activity has ended when the attempt refuses to be stopped by cancelling it.
        try await eventually("the end") { attempt.checkpointIfDue(interval: .zero) == nil }
        #expect(host.points.value.isEmpty)
        mover.answerCheckpoint()
        _ = await task.value
        #expect(host.points.value.map(\.generation) == ["g"])
        #expect(attempt.checkpointIfDue(interval: .zero) == nil && mover.checkpoints.value == 1)
        #expect(attempt.progress.transferred == 40 << 20, "the progress stays known after the end")
    }

    @Test("a location never replaces a checkpoint of its generation, and a new generation replaces it")
    func location() async throws {
        let (mover, task) = try await begin()
        mover.answerCheckpoint()
        #expect(attempt.checkpointIfDue(interval: nil) == .urgent)
        try await eventually("the checkpoint") { host.points.value.count == 1 }
        // Between the opening of a partial file and its report, a checkpoint may have named it already.
        mover.io.recordLocation(Mover.point("g"))
        try await eventually("the location to be taken") {
            _ = attempt.checkpointIfDue(interval: nil)
            return mover.io.takeLocation() == nil
        }
        mover.io.recordLocation(Mover.point("h"))
        try await eventually("the new generation") {
            _ = attempt.checkpointIfDue(interval: nil)
            return host.points.value.count == 2
        }
        #expect(host.points.value.map(\.generation) == ["g", "h"])
        #expect(host.points.value[0].offsets.intervals == [0..<9])
        mover.finish()
        _ = await task.value
    }

    @Test("an attempt that is stopped does not wait until a slow store has answered a checkpoint")
    func stoppedDuringCheckpoint() async throws {
        let (mover, task) = try await begin()
        #expect(attempt.checkpointIfDue(interval: nil) == .urgent)
        try await eventually("a checkpoint") { mover.checkpoints.value == 1 }
        attempt.stop(.shutdown)
        guard case .stopped = await task.value.outcome else { return #expect(Bool(false)) }
    }

    @Test("a run of a cancelled task still makes its last checkpoint, until the time for it has ended")
    func lastCheckpoint() async throws {
        for isInTime in [true, false] {
            let remainder = SlowRemainder()
            let (time, end) = AsyncStream<Void>.makeStream()
            let task = Task {
                while !Task.isCancelled { await Task.yield() }
                return await remainder.retain { for await _ in time {} }
            }
            task.cancel()
            try await eventually("the last checkpoint to begin") { remainder.hasBegun.value }
            if isInTime { remainder.finish() } else { end.finish() }
            guard case .checkpoint(let point) = await task.value else { return #expect(Bool(false)) }
            #expect((point != nil) == isInTime)
            end.finish()
        }
    }

    @Test("an attempt that is stopped before its activity begins is cancelled at once") func stoppedBefore() async {
        attempt.stop(.paused)
        let io = RunIO(host)
        let mover = Mover(io)
        let result = await attempt.run(mover, io)
        guard case .stopped = result.outcome else { return #expect(Bool(false)) }
        #expect(attempt.stopReason == .paused)
    }

    @Test("the first reason to stop counts, but `fenced` overrules it once, even after the end")
    func reasons() async throws {
        for reason in [Attempt.StopReason.paused, .cancelled, .shutdown, .deadline] {
            let attempt = Attempt()
            #expect(attempt.stop(reason) && !attempt.stop(.timeLimit) && attempt.stopReason == reason)
            #expect(attempt.stop(.fenced) && !attempt.stop(.fenced) && !attempt.stop(reason))
            #expect(attempt.stopReason == .fenced)
        }
        let (_, task) = try await begin()
        #expect(attempt.stop(.paused))
        guard case .stopped = await task.value.outcome else { return #expect(Bool(false)) }
        #expect(attempt.stop(.fenced) && attempt.stopReason == .fenced)
    }

    @Test("the wait for a host is visible while it lasts") func waiting() async throws {
        let (mover, task) = try await begin()
        let (gate, open) = AsyncStream<Void>.makeStream()
        async let isIn = mover.io.waitForHost {
            for await _ in gate {}
            return true
        }
        try await eventually("the wait") { !attempt.isActive }
        #expect(attempt.waitsFor == nil, "it has lasted for less than a second")
        open.finish()
        #expect(await isIn && attempt.isActive)
        mover.finish()
        _ = await task.value
    }
}
