import HaulActivities
import HaulContract
import HaulExecutors
import Synchronization

/// A kind of job that only sleeps: for as many milliseconds as its body says. Each millisecond counts as one byte.
///
/// It is what docs/contributing/map.md shows as a kind with nothing of its own, and it knows its worker only through its
/// `RunIO`.
final class Sleep: Activity, RunRemainder {
    private let assignment: Assignment
    private let io: RunIO
    private let slept: Mutex<Int64>

    init(_ assignment: Assignment, _ io: RunIO) {
        (self.assignment, self.io) = (assignment, io)
        slept = Mutex(assignment.resume?.offsets.count ?? 0)
    }

    private var total: Int64 { assignment.job.body.flatMap { Int64($0) } ?? 0 }

    var executor: any TaskExecutor { globalConcurrentExecutor }

    func run() async -> ActivityResult {
        let before = slept.withLock { $0 }
        io.report(before > 0 ? .resumed(offset: before, total: total) : .started(total: total, resumable: true))
        if before == 0 { io.recordLocation(point) }
        while slept.withLock({ $0 < total }), (try? await Task.sleep(for: .milliseconds(10))) != nil {
            slept.withLock { $0 += 10 }
        }
        let now = progress()
        var result = ActivityResult(
            now.received < total ? .stopped : .responded(response, seconds: 0, unchanged: false), now)
        (result.remainder, result.hasMadeProgress) = (self, now.received > before)
        return result
    }

    private var response: StoredResponse {
        StoredResponse(
            status: 200, headers: [], body: Array("slept".utf8), requestDigest: "", method: "POST",
            validated: assignment.clock.milliseconds)
    }

    func progress() -> ActivityProgress {
        var progress = ActivityProgress()
        (progress.received, progress.total) = (slept.withLock { $0 }, total)
        progress.transferred = progress.received - (assignment.resume?.offsets.count ?? 0)
        return progress
    }

    // MARK: Continuing

    private var point: ResumePoint {
        let slept = slept.withLock { $0 }
        return ResumePoint(
            generation: assignment.resume?.generation ?? assignment.token, store: "", file: "",
            entity: Entity(total: total), source: "", offsets: ByteIntervals(slept > 0 ? [0..<slept] : []))
    }

    func checkpoint() async -> (point: ResumePoint?, isPartial: Bool) { (point, false) }
    func finalCheckpoint() async -> ResumePoint? { point }
    func discard(soon: Bool) async {}
}
