package import HaulContract
import HaulExecutors
import HaulHTTP
package import HaulStorage
import Synchronization

/// What shows that all bytes of a file have come, unless a digest does.
package enum Completeness: Sendable {
    /// The server announced the length.
    case length
    /// The server marked the end, by its last chunk for example.
    case end
    /// A connection that broke would have looked the same.
    case nothing
}

/// One run of one download: from the claim to a durable file with its final name.
package final class Download: Activity, RunRemainder {
    /// The state that other threads read while the download runs.
    struct State {
        /// nil until a response is accepted, or the partial file of an earlier run is opened.
        var generation: Generation?
        var mirrors: Mirrors
        var received = ReceivedBytes()
        /// Use one response of one mirror only: joined bytes had the wrong checksum, or parts do not name a version.
        var isAlone = false
        /// Joined bytes had the wrong checksum.
        var hasMismatch = false
        var completeness = Completeness.length
        /// For a finished file that is reused: what an earlier run has left to prove that the file is the job's own.
        var proof: PartialLocation?
        /// An earlier run has given a file its name, and that was not settled. Until this push replaces the file, its
        /// proof stays: without that, the file would count as another job's.
        var hasPlaced = false
        /// How long the gate took, which does not count as a part of the commit.
        var gateDuration = Duration.zero
    }

    /// The maximum number of new generations in one run of a job with one URL; each further URL allows one more. If
    /// there are more, the remote file changes faster than it can be fetched.
    static let maxRestarts = 3

    let assignment: Assignment
    let io: RunIO
    let context: ActivityContext
    /// The job's own rate limit, over all its connections.
    private let limit: TokenBucket?
    let headers: [HeaderField]
    let digests = DigestSession()
    /// Whether a request has left this machine.
    let sending = SendingProgress()
    let state: Mutex<State>

    package init(_ assignment: Assignment, _ io: RunIO, context: ActivityContext) {
        (self.assignment, self.io, self.context) = (assignment, io, context)
        let job = assignment.job
        headers = job.requestHeaders
        limit = job.limitRate.map { TokenBucket(bytesPerSecond: $0) }
        let record: (any SourcedRecord)? = assignment.resume ?? assignment.completed
        state = Mutex(State(mirrors: Mirrors(urls: job.urls, record: record, mayMix: job.checksum != nil)))
    }

    var job: Job { assignment.job }
    var resume: ResumePoint? { assignment.resume }
    var generation: Generation? { state.withLock { $0.generation } }

    // MARK: Called from other threads

    package var executor: any TaskExecutor { context.engine.executor }

    package func progress() -> ActivityProgress {
        state.withLock { state in
            let total = state.generation?.entity.total
            let speed = state.received.speed()
            var progress = ActivityProgress()
            // Where one connection took over from another, a few bytes may have arrived twice.
            let here = (state.generation?.inherited ?? 0) + state.received.ofGeneration
            (progress.received, progress.total) = (min(here, total ?? .max), total)
            (progress.speed, progress.average) = (speed.now, speed.average)
            progress.connections = state.received.transfers.count
            progress.transferred = state.received.inAll
            return progress
        }
    }

    package var completeness: Completeness { state.withLock { $0.completeness } }

    var transferred: Int64 { state.withLock { $0.received.inAll } }

    /// A small file is in memory and has no partial file yet. Then this ends the reception into memory, and the next
    /// checkpoint finds a partial file.
    package func checkpoint() async -> (point: ResumePoint?, isPartial: Bool) {
        let (generation, transfers) = state.withLock { ($0.generation, $0.received.transfers.values) }
        guard let generation, generation.partial.location != nil else {
            for transfer in transfers { await transfer.endCollecting() }
            return (nil, false)
        }
        let point = await resumePoint(of: generation, isLast: false)
        return (point, self.generation?.partial.hasMoreToReport ?? false)
    }

    package func finalCheckpoint() async -> ResumePoint? {
        guard let generation else { return nil }
        return await resumePoint(of: generation, isLast: true)
    }

    private func resumePoint(of generation: Generation, isLast: Bool) async -> ResumePoint? {
        // An error of the disk is ignored here, because the run itself meets the error, too.
        guard let checkpoint = try? await generation.partial.checkpoint(isLast: isLast) else { return nil }
        // Read the generation again: `isMixed` may have changed during the checkpoint.
        guard let current = self.generation, current.partial === generation.partial else { return nil }
        return current.resumePoint(checkpoint, in: context.store)
    }

    package func discard(soon: Bool = false) async {
        if let partial = generation?.partialInStore {
            await partial.discard(soon: soon)
        } else if let location = partialLocation {
            await context.store.discard(location)
        }
    }

    /// A partial file that can never be continued would only take up space for as long as the job is retained.
    package func discardUseless() async -> Bool {
        if let generation, let partial = generation.partialInStore {
            // Where no byte has come, there is nothing to continue, but space may be reserved.
            if partial === generation.partial, isContinuable, !partial.written.isEmpty, await partial.exists() {
                return false
            }
        } else {
            // A partial file on another store is left to the workers of that store.
            guard let resume, resume.store == context.store.id, !state.withLock({ $0.hasPlaced }),
                !reusePolicy.mayJoin(resume, count: resume.offsets.count)
            else { return false }
        }
        await discard()
        return true
    }

    private var isContinuable: Bool {
        isResumable && generation.map { !$0.isMixed || expectedDigest(of: $0.entity) != nil } ?? true
    }

    package var partialLocation: PartialLocation? {
        if let location = generation?.partialInStore?.location { return location }
        if let proof = state.withLock({ $0.proof }) { return proof }
        guard let resume, resume.store == context.store.id else { return nil }
        return PartialLocation(file: resume.file, key: assignment.key, generation: resume.generation)
    }

    // MARK: The run

    package var mustNotBeInterrupted: Bool { !isRepeatable }

    package func run() async -> ActivityResult {
        var result = ActivityResult(await outcome(), progress())
        (result.isRepeatable, result.hasMadeProgress, result.remainder) = (isRepeatable, hasMadeProgress, self)
        return result
    }

    func outcome() async -> ActivityOutcome {
        do {
            if let outcome = try await reuse() { return outcome }
            var step = try await recover()
            if case .finished(let outcome) = step { return outcome }
            if assignment.wasSent, job.method != "GET" { return .failed(ResponseStorage.lostRun) }
            var (restarts, wasSentAgain) = (0, false)
            while true {
                if case .finished(let outcome) = step { return outcome }
                step = try await attempt(step)
                switch step {
                case .restart(ResponseExpectation.wholeAgain) where wasSentAgain:
                    // The connection broke a second time. The next attempt may find a better one.
                    return .failed(
                        Failure(
                            .incomplete,
                            "the connection broke before the end of the file, and \(ResponseExpectation.wholeAgain) each time"
                        ))
                case .restart(let why):
                    wasSentAgain = why == ResponseExpectation.wholeAgain
                    restarts += 1
                    guard restarts < Self.maxRestarts + job.urls.count else {
                        return .failed(
                            Failure(
                                .remoteChanged,
                                "the download had to restart \(restarts) times (\(why)): try again later"
                            ))
                    }
                    io.report(hasBytes ? .restarted(why: why) : .warning(why))
                    step = .begin
                case .begin, .fetchMissing, .finished: break
                }
            }
        } catch {
            switch error {
            case .cancelled: return .stopped
            case .noSpace: return await whenDiskIsFull()
            case .failed(var failure):
                if Task.isCancelled { return .stopped }
                failure.mirror = state.withLock { $0.mirrors.current > 0 ? $0.mirrors[$0.mirrors.current].host : nil }
                // If the store does not work, every other job would fail as well, so the job is parked.
                let isDiskError = [.io, .permission].contains(failure.code) && !failure.blamesMirror
                if isDiskError, await context.store.fault() != nil { return .parked(context.store.waitsFor) }
                return ResponseStorage.outcome(
                    of: .failed(failure), mayHaveArrived: !isRepeatable, in: context.store)
            }
        }
    }

    /// The disk is full. A partial file that cannot be continued is removed, because it may be what fills the disk.
    private func whenDiskIsFull() async -> ActivityOutcome {
        guard !isResumable else { return .parked(context.store.waitsFor) }
        let (total, count) = state.withLock { ($0.generation?.entity.total, $0.received.ofGeneration) }
        await discard()
        guard total == nil, count > 0 else { return .parked(context.store.waitsFor) }
        // The length is unknown, so it is also unknown how much space to wait for.
        return .failed(
            Failure(
                .io,
                "the disk has no space for the \(count) bytes that have arrived so far, and the server does not say how many "
                    + "there are: free some space, or give the job max_bytes"))
    }

    /// Fetches. If that fails, looks for another way: another mirror, or one response alone. A request that must not be
    /// repeated is not sent to another mirror either, because that may be the same server.
    private func attempt(_ step: Step) async throws(TransferError) -> Step {
        let error: TransferError
        do { return try await fetch(step) } catch let thrown { error = thrown }
        guard case .failed(let failure) = error, isRepeatable, !Task.isCancelled, let why = otherWay(after: failure)
        else { throw error }
        return .restart(why: why)
    }

    private func otherWay(after failure: Failure) -> String? {
        state.withLock { state in
            let isJoined = state.generation?.inherited ?? 0 > 0 || state.received.responses > 1
            if failure.code == .checksumMismatch, isJoined, !state.isAlone {
                (state.isAlone, state.hasMismatch) = (true, true)
                return "the bytes of several responses do not have the right checksum"
            }
            return Self.dropMirror(of: &state, after: failure)
        }
    }

    /// Stops using the current mirror if it is to blame for a failure. Says so, or returns nil if it is not, or if there
    /// is no other.
    func dropMirror(after failure: Failure) -> String? { state.withLock { Self.dropMirror(of: &$0, after: failure) } }

    private static func dropMirror(of state: inout State, after failure: Failure) -> String? {
        let url = state.mirrors.all[state.mirrors.current].url
        guard Mirrors.isToBlame(for: failure), state.mirrors.drop(state.mirrors.current) else { return nil }
        return "the mirror \(MaskedURL.text(url)) failed: \(failure.message)"
    }

    private var hasBytes: Bool {
        state.withLock { ($0.generation?.inherited ?? 0) + $0.received.ofGeneration > 0 }
    }

    enum Step {
        case begin
        case fetchMissing
        case restart(why: String)
        case finished(ActivityOutcome)
    }

    // MARK: Used by the extensions

    /// The job and the run, as the store needs them.
    ///
    /// - Parameter entity: What the file's bytes are of, if that is known.
    func file(of entity: Entity?) -> FileRequest {
        var request = assignment.file(under: io.lease)
        request.isExamined = context.gate != nil || (job.checksum ?? entity?.digest) != nil
        return request
    }

    /// Waits until the host may have one more connection. False if the task was cancelled meanwhile.
    func enter(_ host: String) async -> Bool { await io.waitForHost { await context.hosts.enter(host) } }

    var limits: [TokenBucket] { [limit, context.limit].compactMap(\.self) + assignment.limits }

    var reusePolicy: ReusePolicy {
        ReusePolicy(
            job: job, mirrors: mirrors.all, maxBytes: sizeLimit, isPushedAgain: assignment.isPushedAgain)
    }
}
