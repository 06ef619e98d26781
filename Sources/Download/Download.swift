package import Contract
import Executors
import Glibc
import Synchronization
import Transfer

/// One run of one job: from the claim's token to a durable file with its final name.
package final class Download: Sendable {
    /// What the running download shows to those who look at it from other threads.
    struct State {
        var output: OutputFile?
        var partial: PartialFile?
        var target: Target?
        var entity = Entity()
        var source = ""
        /// Bytes that were there when the running transfer began.
        var base: Int64 = 0
        var transfer: Transfer?
        /// Bytes of this attempt before the running transfer.
        var earlier: Int64 = 0
        var meter = SpeedMeter()
        var checkpointed: ByteIntervals?
    }

    /// New generations within one run; after that the remote file changes faster than it can be fetched.
    static let maximumRestarts = 3
    /// Lost connections that are made up for within one run, each having brought at least `worthwhile` bytes.
    static let maximumReconnects = 20
    static let worthwhile: Int64 = 64 << 10

    let job: Job
    let token: String
    let key: String
    let resume: ResumePoint?
    let completed: CompletedFile?
    let context: DownloadContext
    let mayCommit: @Sendable () async -> Bool
    let report: @Sendable (DownloadEvent) -> Void
    let state = Mutex(State())

    /// `key` is sha1 of the queue and the job's id, 40 hexadecimal digits. `mayCommit` is asked right before the name is
    /// placed: whether the lease still stands.
    package init(
        job: Job, token: String, key: String, resume: ResumePoint?, completed: CompletedFile?, context: DownloadContext,
        mayCommit: @escaping @Sendable () async -> Bool, report: @escaping @Sendable (DownloadEvent) -> Void
    ) {
        (self.job, self.token, self.key, self.resume, self.completed) = (job, token, key, resume, completed)
        (self.context, self.mayCommit, self.report) = (context, mayCommit, report)
    }

    // MARK: From other threads

    package func progress() -> DownloadProgress {
        state.withLock { state in
            let now = state.transfer?.progress.received ?? 0
            state.meter.sample(state.earlier + now)
            return DownloadProgress(
                received: state.base + now, total: state.entity.total, speed: state.meter.speed,
                average: state.meter.average, connections: state.transfer == nil ? 0 : 1)
        }
    }

    /// Bytes that have arrived in this run.
    package var arrived: Int64 { state.withLock { $0.earlier + ($0.transfer?.progress.received ?? 0) } }

    /// Syncs what is written and returns where another worker may go on; nil if there is nothing new. Never ahead of the
    /// disk.
    package func checkpoint() async -> ResumePoint? {
        guard let output = state.withLock({ $0.output }) else { return nil }
        guard let durable = try? await output.checkpoint() else { return nil }
        return await resumePoint(durable, of: output)
    }

    func resumePoint(_ durable: ByteIntervals, of output: OutputFile) async -> ResumePoint? {
        let found = state.withLock { state -> (PartialFile, Target, Entity, String)? in
            guard state.output === output, let partial = state.partial, let target = state.target,
                state.checkpointed != durable
            else { return nil }
            state.checkpointed = durable
            return (partial, target, state.entity, state.source)
        }
        guard let (partial, target, entity, source) = found else { return nil }
        let checks = await context.engine.path.blocking.run {
            // The output owns the descriptor: it is held open by this reference.
            withExtendedLifetime(output) { BlockCheck.compute(durable, partial.descriptor) }
        }
        return ResumePoint(
            generation: partial.generation, store: context.store.id, file: target.path, entity: entity, source: source,
            offsets: durable, blockChecks: checks)
    }

    /// After a stop: all that has arrived, synced.
    package func finalCheckpoint() async -> ResumePoint? {
        guard let output = state.withLock({ $0.output }), let durable = try? await output.checkpoint()
        else { return nil }
        return await resumePoint(durable, of: output)
    }

    /// After a cancel, or after `completed` was settled: the partial file's name goes.
    package func unlinkPartial() async {
        let partial = state.withLock { $0.partial }
        let (key, resume, store) = (key, resume, context.store)
        await context.engine.path.blocking.run {
            if let partial { return partial.directory.unlink(partial.name) }
            guard let resume, resume.store == store.id else { return }
            store.unlinkPartial(of: resume.file, key: key, generation: resume.generation)
        }
    }

    // MARK: The run

    /// Runs to an end; cancelling the task stops it and leaves the partial file.
    package func run() async -> DownloadOutcome {
        do {
            if let outcome = try await reuse() { return outcome }
            var position = try await recover()
            if case .finished(let outcome) = position { return outcome }
            for restart in 0...Self.maximumRestarts {
                switch try await fetch(position) {
                case .finished(let outcome): return outcome
                case .restart(let why):
                    guard restart < Self.maximumRestarts else { break }
                    report(.restarted(why: why))
                    position = .begin
                case .begin, .go: break
                }
            }
            return .failed(
                Failure(.remoteChanged, "the remote file changes again and again while it is fetched: try later"))
        } catch {
            switch error {
            case .cancelled: return .stopped
            case .noSpace: return .parked("disk")
            case .failed(let failure): return Task.isCancelled ? .stopped : .failed(failure)
            }
        }
    }

    enum Step {
        case begin
        case go
        case restart(why: String)
        case finished(DownloadOutcome)
    }

    // MARK: What all parts use

    func onFileThread<T: Sendable>(_ body: @escaping @Sendable () throws(Failure) -> T)
        async throws(TransferError) -> T
    {
        let result: Result<T, Failure> = await context.engine.path.blocking.run {
            Result { () throws(Failure) in try body() }
        }
        switch result {
        case .success(let value): return value
        case .failure(let failure): throw .failed(failure)
        }
    }

    func pause(_ duration: Duration) async throws(TransferError) {
        do { try await Task.sleep(for: duration) } catch { throw .cancelled }
    }
}
