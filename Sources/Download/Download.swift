import Glibc
package import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

/// One run of one job: from the claim's token to a durable file with its final name.
package final class Download: Sendable {
    /// What the running download shows to those who look at it from other threads.
    struct State {
        var output: OutputFile?
        var partial: PartialFile?
        var target: Target?
        var entity = Entity()
        var source = ""
        /// Bytes of other URLs than `source` are in the partial file.
        var isMixed = false
        var mirrors: Mirrors
        /// Bytes that were in the partial file when this run opened it.
        var base: Int64 = 0
        var transfers: [Int: Transfer] = [:]
        /// Bytes of transfers into this partial file that have ended.
        var finished: Int64 = 0
        /// Bytes into earlier partial files of this run.
        var earlier: Int64 = 0
        /// Responses that bytes of this partial file came from in this run.
        var responses = 0
        /// One response from one mirror only: joined bytes did not have the checksum.
        var isAlone = false
        var meter = SpeedMeter()
        /// Since when it waits for its host's turn: monotonic nanoseconds.
        var waitingSince: UInt64?
        var checkpointed: ByteIntervals?

        /// Bytes that this run has brought into the partial file.
        var fetched: Int64 { transfers.values.reduce(finished) { $0 + $1.progress.received } }
    }

    /// New generations within one run; after that the remote file changes faster than it can be fetched.
    static let maximumRestarts = 3

    let job: Job
    let token: String
    let key: String
    let resume: ResumePoint?
    let completed: CompletedFile?
    let isNew: Bool
    let isSettled: Bool
    let clock: SharedClock
    /// All connections of the job share it.
    private let limit: TokenBucket?
    let context: DownloadContext
    let digests = DigestSession()
    let isLeaseHeld: @Sendable () -> Bool
    let mayCommit: @Sendable () async -> Bool
    /// Called when it begins to wait for its host, and when it goes on.
    private let workChanged: (@Sendable () async -> Void)?
    let report: @Sendable (DownloadEvent) -> Void
    let state: Mutex<State>

    /// `key` is sha1 of the queue and the job's id, 40 hexadecimal digits. `isNew` says that no run of the job can have
    /// been before; `isSettled` that the last one completed it, so that none can be at work. Right before the name is placed `isLeaseHeld` tells whether the lease certainly stands by our own
    /// clock; where it does not, `mayCommit` is asked. `clock` judges what other workers have noted.
    package init(
        job: Job, token: String, key: String, resume: ResumePoint?, completed: CompletedFile?, isNew: Bool = false,
        isSettled: Bool = false, clock: SharedClock, context: DownloadContext,
        isLeaseHeld: @escaping @Sendable () -> Bool = { false },
        workChanged: (@Sendable () async -> Void)? = nil,
        mayCommit: @escaping @Sendable () async -> Bool, report: @escaping @Sendable (DownloadEvent) -> Void
    ) {
        (self.job, self.token, self.key, self.resume, self.completed) = (job, token, key, resume, completed)
        (self.isNew, self.isSettled) = (isNew, isSettled)
        (self.clock, self.context, self.report) = (clock, context, report)
        limit = job.limitRate.map { TokenBucket(bytesPerSecond: $0) }
        (self.isLeaseHeld, self.mayCommit, self.workChanged) = (isLeaseHeld, mayCommit, workChanged)
        state = Mutex(
            State(
                mirrors: Mirrors(
                    urls: job.urls, source: resume?.source ?? completed?.source, mayMix: job.checksum != nil)))
    }

    // MARK: From other threads

    /// The thread for `run()`, which saves it most of its ways to others.
    package var executor: any TaskExecutor { context.engine.executor }

    package func progress() -> DownloadProgress {
        state.withLock { state in
            let now = state.fetched
            state.meter.sample(state.earlier + now)
            // Where one connection took over from another a few bytes may have come twice.
            return DownloadProgress(
                received: min(state.base + now, state.entity.total ?? .max), total: state.entity.total,
                speed: state.meter.speed, average: state.meter.average, connections: state.transfers.count)
        }
    }

    /// Whether it has waited for its host's turn for a second or longer.
    package var isWaitingForHost: Bool {
        state.withLock { state in state.waitingSince.map { monotonicNanoseconds() >= $0 + 1_000_000_000 } ?? false }
    }

    /// Whether it does more than wait for its host's turn.
    package var isAtWork: Bool { state.withLock { $0.waitingSince == nil } }

    /// Waits for the host's turn. False if the task was cancelled meanwhile.
    func enter(_ host: String) async -> Bool {
        state.withLock { $0.waitingSince = monotonicNanoseconds() }
        await workChanged?()
        let isIn = await context.hosts.enter(host)
        state.withLock { $0.waitingSince = nil }
        await workChanged?()
        return isIn
    }

    /// Bytes that have arrived in this run.
    package var arrived: Int64 { state.withLock { $0.earlier + $0.fetched } }

    /// Syncs what is written and returns where another worker may go on; nil if there is nothing new. Never ahead of the
    /// disk. A file that was thought to be too small for checkpoints is on its way to the disk then, for the next one.
    package func checkpoint() async -> ResumePoint? {
        let (output, transfers) = state.withLock { ($0.output, $0.transfers.values) }
        guard let output else {
            for transfer in transfers { await transfer.endCollecting() }
            return nil
        }
        return await resumePoint(of: output)
    }

    /// Where the partial file is, with nothing in it that is durable; nil if there is none yet, or it is of this generation.
    package func place(otherThan generation: String?) -> ResumePoint? {
        state.withLock { state in
            guard let partial = state.partial, let target = state.target, partial.generation != generation else {
                return nil
            }
            return ResumePoint(
                generation: partial.generation, store: context.store.id, file: target.path, entity: state.entity,
                source: state.source, isMixed: state.isMixed)
        }
    }

    private func resumePoint(of output: OutputFile) async -> ResumePoint? {
        try? await output.checkpoint { durable in self.resumePoint(durable, of: output) }
    }

    /// Blocks.
    private func resumePoint(_ durable: ByteIntervals, of output: OutputFile) -> ResumePoint? {
        let found = state.withLock { state -> (PartialFile, Target, Entity, String, Bool)? in
            guard state.output === output, let partial = state.partial, let target = state.target,
                state.checkpointed != durable
            else { return nil }
            state.checkpointed = durable
            return (partial, target, state.entity, state.source, state.isMixed)
        }
        guard let (partial, target, entity, source, isMixed) = found else { return nil }
        return ResumePoint(
            generation: partial.generation, store: context.store.id, file: target.path, entity: entity, source: source,
            isMixed: isMixed, offsets: durable, blockChecks: BlockCheck.compute(durable, output.descriptor))
    }

    /// After a stop: all that has arrived, synced.
    package func finalCheckpoint() async -> ResumePoint? {
        guard let output = state.withLock({ $0.output }) else { return nil }
        return await resumePoint(of: output)
    }

    /// After a cancel, or after `completed` was settled: the partial file's name goes, and the file is closed. `soon` is with
    /// the next files that are put there, for which it does not wait.
    package func unlinkPartial(soon: Bool = false) async {
        let (place, blocking) = (partialPlace, context.engine.path.blocking)
        let unlink: BlockingPool.Work = { [self] in
            let (partial, output) = state.withLock { ($0.partial, $0.output.take()) }
            withExtendedLifetime(output) {
                if let partial { return partial.directory.unlink(partial.name) }
                if let place { context.store.unlink(place) }
            }
        }
        if soon { context.commits.later(unlink) } else { await blocking.run(unlink) }
    }

    /// Removes the partial file if no run can ever go on with it; true if nothing of it is left. It would only take room for as
    /// long as the job is kept.
    package func discardUseless() async -> Bool {
        let partial = state.withLock { $0.partial }
        let isLeft = await context.engine.path.blocking.run {
            partial.map { $0.directory.status(of: $0.name) != nil } ?? true
        }
        // What lies on another store is that one's.
        let resume = resume.flatMap { $0.store == context.store.id ? $0 : nil }
        if isLeft, partial == nil ? resume.map(canGoOn) ?? true : isContinuable { return false }
        await unlinkPartial()
        return true
    }

    private var isContinuable: Bool { isResumable && state.withLock { !$0.isMixed || judge(of: $0.entity) != nil } }

    /// Where the partial file is, once it is opened, or was left by an earlier run.
    package var partialPlace: PartialPlace? {
        let opened = state.withLock { state in
            state.partial.flatMap { partial in state.target.map { ($0.path, partial) } }
        }
        if let (file, partial) = opened {
            return PartialPlace(file: file, key: key, generation: partial.generation, name: partial.name)
        }
        guard let resume, resume.store == context.store.id else { return nil }
        return PartialPlace(file: resume.file, key: key, generation: resume.generation)
    }

    // MARK: The run

    /// Runs to an end; cancelling the task stops it and leaves the partial file.
    package func run() async -> DownloadOutcome {
        do {
            if let outcome = try await reuse() { return outcome }
            var step = try await recover()
            var restarts = 0
            while true {
                if case .finished(let outcome) = step { return outcome }
                step = try await attempt(step)
                switch step {
                case .restart(let why):
                    restarts += 1
                    guard restarts < Self.maximumRestarts + job.urls.count else {
                        return .failed(
                            Failure(
                                .remoteChanged, "the remote file changes again and again while it is fetched: try later"
                            ))
                    }
                    report(hasBytes ? .restarted(why: why) : .warning(why))
                    step = .begin
                case .begin, .go, .finished: break
                }
            }
        } catch {
            switch error {
            case .cancelled: return .stopped
            case .noSpace: return await withoutRoom()
            case .failed(let failure):
                if Task.isCancelled { return .stopped }
                // What the disk did to this job it would do to every other one.
                let isOfDisk = failure.code == .io || failure.code == .permission
                return if isOfDisk, await !isRootSound() { .parked("disk") } else { .failed(failure) }
            }
        }
    }

    /// The disk is full. What cannot be continued gives back its room, which may be all there is, and others wait for.
    private func withoutRoom() async -> DownloadOutcome {
        guard !isResumable else { return .parked("disk") }
        let (total, count) = state.withLock { ($0.entity.total, $0.fetched) }
        await unlinkPartial()
        guard total == nil, count > 0 else { return .parked("disk") }
        // Nobody can say how much room it would have to wait for.
        return .failed(
            Failure(
                .io,
                "the disk is full after \(count) bytes, and the server does not say how many there are: make room, or give "
                    + "the job max_bytes"))
    }

    /// Fetches, and where that fails looks for another way.
    private func attempt(_ step: Step) async throws(TransferError) -> Step {
        let error: TransferError
        do { return try await fetch(step) } catch let thrown { error = thrown }
        guard case .failed(let failure) = error, !Task.isCancelled, let why = otherWay(after: failure) else {
            throw error
        }
        return .restart(why: why)
    }

    private func otherWay(after failure: Failure) -> String? {
        state.withLock { state in
            let isJoined = state.base > 0 || state.responses > 1
            if failure.code == .checksumMismatch, isJoined, !state.isAlone {
                state.isAlone = true
                return "the bytes of several responses do not have the right checksum"
            }
            guard Mirrors.isToBlame(for: failure.code), state.mirrors.drop(state.mirrors.current) else { return nil }
            return "a mirror failed: \(failure.message)"
        }
    }

    private var hasBytes: Bool { state.withLock { $0.base + $0.fetched > 0 } }

    enum Step {
        case begin
        case go
        case restart(why: String)
        case finished(DownloadOutcome)
    }

    // MARK: What all parts use

    var limits: [TokenBucket] { [limit, context.limit].compactMap(\.self) }

    /// Whether bytes from `source` are of one of the job's URLs: what one URL says of its entity says nothing of another's.
    func isOurs(_ source: String) -> Bool { job.urls.contains { MaskedURL.text($0) == source } }

    /// Runs what blocks on the disk's threads.
    func onDisk<T: Sendable>(
        _ body: @escaping @Sendable () throws(TransferError) -> T
    ) async throws(TransferError) -> T {
        try await context.engine.path.blocking.run(body)
    }

    /// Whether files can be made beneath the root at all, or something has happened to it.
    private func isRootSound() async -> Bool {
        let store = context.store
        return await context.engine.path.blocking.run { store.trouble() == nil }
    }

    func pause(_ duration: Duration) async throws(TransferError) {
        do { try await Task.sleep(for: duration) } catch { throw .cancelled }
    }
}
