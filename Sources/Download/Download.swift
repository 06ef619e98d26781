package import Contract
import Executors
import Glibc
import Synchronization
import Transfer

/// One run of one job: from the claim's token to a durable file with its final name.
package final class Download: Sendable {
    /// What the running download shows to those who look at it from other threads.
    private struct State {
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

    private let job: Job
    private let token: String
    private let key: String
    private let resume: ResumePoint?
    private let completed: CompletedFile?
    private let context: DownloadContext
    private let mayCommit: @Sendable () async -> Bool
    private let report: @Sendable (DownloadEvent) -> Void
    private let state = Mutex(State())

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
        await context.engine.flush(olderThan: .milliseconds(900))
        guard let output = state.withLock({ $0.output }) else { return nil }
        guard let durable = try? await output.checkpoint() else { return nil }
        return await resumePoint(durable, of: output)
    }

    private func resumePoint(_ durable: ByteIntervals, of output: OutputFile) async -> ResumePoint? {
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
            generation: partial.generation, store: context.store.id, file: target.path, entity: entity, url: source,
            offsets: durable, blockChecks: checks)
    }

    /// After a stop: all that has arrived, synced.
    package func finalCheckpoint() async -> ResumePoint? {
        guard let output = state.withLock({ $0.output }), let durable = try? await output.drain() else { return nil }
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

    private enum Step {
        case begin
        case go
        case restart(why: String)
        case finished(DownloadOutcome)
    }

    // MARK: What is there already

    /// A file that this job finished before, and that is still what the server has.
    private func reuse() async throws(TransferError) -> DownloadOutcome? {
        guard let completed, resume == nil, job.ifExists == .reuse,
            let target = try? await self.target(of: completed.file),
            target.isOwn(completed, store: context.store), matches(completed)
        else { return nil }
        var result = completed
        let age = UnixTime.milliseconds - completed.validated
        if let freshFor = job.freshFor, Double(age) / 1000 < freshFor {
            return .completed(result, seconds: 0, unchanged: true)
        }
        guard let condition = Self.condition(completed.entity) else { return nil }
        let (transfer, _) = try await exchange.ask(job.urls[0], [condition, ("Accept-Encoding", "identity")])
        defer { transfer.cancel() }
        switch Question(kind: .changed(completed.entity), isProven: false).judge(transfer.head) {
        case .unchanged:
            result.validated = UnixTime.milliseconds
            return .completed(result, seconds: 0, unchanged: true)
        case .takeWhole(let entity, _) where entity.isSame(as: completed.entity):
            result.validated = UnixTime.milliseconds
            return .completed(result, seconds: 0, unchanged: true)
        case .fail(let failure): throw .failed(failure)
        default: return nil
        }
    }

    private func matches(_ file: CompletedFile) -> Bool {
        (job.size == nil || job.size == file.bytes)
            && (job.checksum == nil || job.checksum?.description == file.checksum)
    }

    private static func condition(_ entity: Entity) -> (name: String, value: String)? {
        if let etag = entity.etag { return ("If-None-Match", etag) }
        return entity.lastModified.map { ("If-Modified-Since", $0) }
    }

    /// Opens what an earlier run left, if it may be continued.
    private func recover() async throws(TransferError) -> Step {
        guard let resume, resume.store == context.store.id else { return .begin }
        guard let target = try? await self.target(of: resume.file) else { return .begin }
        let key = key
        let found = await context.engine.path.blocking.run { PartialFile.find(resume, in: target.directory, key: key) }
        switch found {
        case nil: return .begin
        case .placed(let name, let status):
            var target = target
            target.name = name
            return .finished(.completed(record(target, status, resume.entity, nil), seconds: 0, unchanged: false))
        case .open(let partial):
            let output = OutputFile(
                descriptor: partial.descriptor, path: context.engine.path, durability: context.durability,
                written: resume.offsets)
            guard resume.offsets.count > 0, resume.entity.total != nil,
                resume.entity.strongValidator != nil || job.checksum != nil
            else {
                return .begin
            }
            state.withLock { state in
                state.output = output
                state.partial = partial
                state.target = target
                state.entity = resume.entity
                state.source = resume.url
                state.base = resume.offsets.count
                state.checkpointed = resume.offsets
            }
            report(.resumed(offset: resume.offsets.count, total: resume.entity.total))
            return .go
        }
    }

    private func target(of path: String) async throws(TransferError) -> Target {
        let (job, store) = (job, context.store)
        return try await onFileThread { () throws(Failure) in
            try Target(chosen: path, isGiven: job.path.map { !$0.hasSuffix("/") } ?? false, in: store)
        }
    }

    // MARK: Fetching

    private var exchange: Exchange {
        var template = Request(url: "")
        template.method = job.method
        template.body = job.body
        template.connectTimeout = job.connectTimeout.map { .seconds($0) } ?? context.connectTimeout
        template.stallTimeout = job.stallTimeout.map { .seconds($0) } ?? context.stallTimeout
        template.limits = limits
        return Exchange(engine: context.engine, template: template, custom: job.headers)
    }

    private var limits: [TokenBucket] {
        (job.limitRate.map { [TokenBucket(bytesPerSecond: $0)] } ?? []) + (context.limit.map { [$0] } ?? [])
    }

    /// Fetches from the start (`.begin`) or what is missing (`.go`), until the file is whole and placed.
    private func fetch(_ step: Step) async throws(TransferError) -> Step {
        if case .begin = step {
            let next = try await fetchWhole()
            if case .go = next {} else { return next }
        }
        var reconnects = 0
        var useIfRange = true
        while true {
            guard let output = state.withLock({ $0.output }), let total = state.withLock({ $0.entity.total }) else {
                return .begin
            }
            // What is handed over but not written yet would look like a gap.
            _ = try await output.drain()
            guard let gap = output.written.gaps(in: total).first else { return .finished(try await commit(total)) }
            let before = output.written.count
            do {
                let result = try await fetchPart(gap, of: total, useIfRange: useIfRange)
                switch result {
                case .askAgain: useIfRange = false
                case .restart(let why): return .restart(why: why)
                case .done: break
                }
            } catch {
                // What is still on its way to the disk has arrived, too.
                _ = try? await output.drain()
                guard case .failed(let failure) = error, RetryPolicy.isRetryable(failure.code),
                    failure.retryAfter == nil,
                    output.written.count - before >= Self.worthwhile, reconnects < Self.maximumReconnects, isResumable
                else { throw error }
                reconnects += 1
                try await pause(.milliseconds(200))
            }
        }
    }

    private var isResumable: Bool {
        state.withLock { ($0.entity.strongValidator != nil || job.checksum != nil) && $0.entity.total != nil }
            && job.method == "GET"
    }

    private enum PartResult {
        case done, askAgain
        case restart(why: String)
    }

    private func fetchPart(_ gap: Range<Int64>, of total: Int64, useIfRange: Bool) async throws(TransferError)
        -> PartResult
    {
        let (entity, output) = state.withLock { ($0.entity, $0.output!) }
        let isLast = gap.upperBound == total
        var headers = [
            (name: "Range", value: "bytes=\(gap.lowerBound)-" + (isLast ? "" : "\(gap.upperBound - 1)")),
            (name: "Accept-Encoding", value: "identity"),
        ]
        let validator = useIfRange ? entity.strongValidator : nil
        if let validator { headers.append(("If-Range", validator)) }
        let (transfer, _) = try await exchange.ask(job.urls[0], headers)
        let question = Question(
            kind: .part(position: gap.lowerBound, end: gap.upperBound, of: entity, ifRange: validator != nil),
            isProven: job.checksum != nil)
        switch question.judge(transfer.head) {
        case .takePart(let position, let length):
            begin(transfer, base: output.written.count)
            defer { end(transfer) }
            _ = try await transfer.receive(into: output, at: position, length: length)
            return .done
        case .askWithoutIfRange: return .askAgain
        case .restart(let why): return .restart(why: why)
        case .fail(let failure): throw .failed(failure)
        case .takeWhole, .unchanged: return .restart(why: "the server sent what was not asked for")
        }
    }

    /// A plain GET without a range. `.go` if the connection was lost on the way and the rest can be fetched.
    private func fetchWhole() async throws(TransferError) -> Step {
        let (transfer, url) = try await exchange.ask(job.urls[0], [("Accept-Encoding", "identity")])
        guard case .takeWhole(let entity, let length) = Question(kind: .whole, isProven: false).judge(transfer.head)
        else {
            if case .fail(let failure) = Question(kind: .whole, isProven: false).judge(transfer.head) {
                throw .failed(failure)
            }
            throw .failed(Failure(.badResponse, "the server's answer does not fit the question"))
        }
        if let refusal = refusal(of: transfer.head, length) { throw .failed(refusal) }
        let output = try await open(entity, suggested: suggestedName(transfer.head, url))
        let resumable = isResumable
        report(.started(total: length, resumable: resumable, file: state.withLock { $0.target!.path }))
        if let length, length > 0 {
            if !context.store.hasRoom(for: length) {
                transfer.cancel()
                if !context.store.couldEverHold(length) {
                    throw .failed(Failure(.tooLarge, "the file is larger than the disk"))
                }
                throw .noSpace
            }
            try await output.reserve(length)
        }
        begin(transfer, base: 0)
        let result: TransferEnd
        do {
            defer { end(transfer) }
            let limit = job.maxBytes ?? context.maximumSize
            // One byte more than allowed tells that there is more.
            result = try await transfer.receive(into: output, at: 0, length: length ?? nil)
            if let limit, result.position > limit { throw TransferError.failed(tooLarge(limit)) }
        } catch {
            let error = error as! TransferError
            guard case .failed(let failure) = error, RetryPolicy.isRetryable(failure.code), resumable else {
                throw error
            }
            guard let durable = try? await output.drain(), durable.count >= Self.worthwhile else { throw error }
            try await pause(.milliseconds(200))
            return .go
        }
        if length == nil {
            state.withLock { $0.entity.total = result.position }
            if transfer.head.length == .untilClose {
                report(.warning("the server told the file's end only by closing the connection: it may be cut short"))
            }
        }
        _ = try await output.drain()
        return .finished(try await commit(result.position))
    }

    private func refusal(of head: ResponseHead, _ length: Int64?) -> Failure? {
        if let wanted = job.contentType {
            let sent = head.headers["content-type"]?.split(separator: ";").first.map(\.trimmed)?.lowercased() ?? "none"
            if sent != wanted.lowercased() {
                return Failure(
                    .wrongContentType, "the server sent \(sent), not \(wanted): this may be a login or error page")
            }
        }
        guard let length else { return nil }
        if let size = job.size, size != length {
            return Failure(.sizeMismatch, "the file has \(length) bytes, the job says \(size)")
        }
        if let limit = [job.maxBytes, context.maximumSize].compactMap(\.self).min(), length > limit {
            return tooLarge(limit)
        }
        return nil
    }

    private func tooLarge(_ limit: Int64) -> Failure {
        Failure(.tooLarge, "the file is larger than the \(limit) bytes allowed")
    }

    private func suggestedName(_ head: ResponseHead, _ final: WebURL) -> String {
        head.headers["content-disposition"].flatMap(ContentDisposition.fileName).flatMap(FileName.sanitise)
            ?? WebURL(job.urls[0]).flatMap { FileName.sanitise($0.lastComponent) } ?? FileName.sanitise(
                final.lastComponent) ?? "download"
    }

    /// A new generation of the partial file, beside the final name.
    private func open(_ entity: Entity, suggested: String) async throws(TransferError) -> OutputFile {
        let (job, store, key, completed, earlier) = (job, context.store, key, completed, resume)
        let used = state.withLock { $0.partial?.generation }
        // The token names a run's first generation; a restart within the run adds to it.
        let generation =
            used == nil && earlier?.generation != token
            ? token : token + "." + String(UInt32.random(in: 0...(.max)), radix: 16)
        let target = try await onFileThread { () throws(Failure) in
            let target = try Target(job.path, suggested: suggested, in: store)
            try target.check(job.ifExists, mayReplace: target.isOwn(completed, store: store))
            return target
        }
        let result: Result<PartialFile, TransferError> = await context.engine.path.blocking.run {
            Result { () throws(TransferError) in
                try PartialFile.create(in: target.directory, key: key, generation: generation)
            }
        }
        let partial = try result.get()
        let output = OutputFile(
            descriptor: partial.descriptor, path: context.engine.path, durability: context.durability)
        state.withLock { state in
            state.output = output
            state.partial = partial
            state.target = target
            state.entity = entity
            state.source = job.urls[0]
            state.base = 0
            state.checkpointed = nil
        }
        return output
    }

    private func begin(_ transfer: Transfer, base: Int64) {
        state.withLock { state in
            state.transfer = transfer
            state.base = base
        }
    }

    private func end(_ transfer: Transfer) {
        state.withLock { state in
            state.transfer = nil
            state.base += transfer.progress.received
            state.earlier += transfer.progress.received
        }
    }

    // MARK: The end

    /// All bytes are in: judged, synced, named.
    private func commit(_ total: Int64) async throws(TransferError) -> DownloadOutcome {
        let (output, partial, entity) = state.withLock { ($0.output!, $0.partial!, $0.entity) }
        guard var target = state.withLock({ $0.target }) else { throw .cancelled }
        if let size = job.size, size != total {
            throw .failed(Failure(.sizeMismatch, "the file has \(total) bytes, the job says \(size)"))
        }
        if let limit = [job.maxBytes, context.maximumSize].compactMap(\.self).min(), total > limit {
            throw .failed(tooLarge(limit))
        }
        var checksum: String?
        if let wanted = job.checksum {
            let digest = try await output.digest(wanted.algorithm, size: total)
            checksum = "\(wanted.algorithm.rawValue):\(digest)"
            guard digest == wanted.digest else {
                await unlinkPartial()
                throw .failed(
                    Failure(
                        .checksumMismatch,
                        "the file's \(wanted.algorithm.rawValue) is \(digest), the job says \(wanted.digest)"))
            }
        }
        try await output.truncate(to: total)
        _ = try await output.drain()
        guard await mayCommit() else { return .fenced }
        let (job, store, completed, durable) = (job, context.store, completed, context.durability == .disk)
        let placed: Result<(Target, stat), Target.PlaceError> = await context.engine.path.blocking.run { [target] in
            Result { () throws(Target.PlaceError) in
                var target = target
                let mayReplace = target.isOwn(completed, store: store)
                try target.place(partial, job.ifExists, mayReplace: mayReplace, durable: durable)
                return (target, target.directory.status(of: target.name) ?? stat())
            }
        }
        switch placed {
        case .success(let (placed, status)):
            target = placed
            let seconds = state.withLock { $0.meter.seconds }
            return .completed(record(target, status, entity, checksum), seconds: seconds, unchanged: false)
        case .failure(.fenced): return .fenced
        case .failure(.noSpace): throw .noSpace
        case .failure(.failed(let failure)): throw .failed(failure)
        }
    }

    private func record(_ target: Target, _ status: stat, _ entity: Entity, _ checksum: String?) -> CompletedFile {
        CompletedFile(
            file: target.path, bytes: Int64(status.st_size), store: context.store.id, inode: UInt64(status.st_ino),
            modified: status.modifiedNanoseconds, entity: entity, checksum: checksum, validated: UnixTime.milliseconds)
    }

    private func onFileThread<T: Sendable>(_ body: @escaping @Sendable () throws(Failure) -> T)
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

    private func pause(_ duration: Duration) async throws(TransferError) {
        do { try await Task.sleep(for: duration) } catch { throw .cancelled }
    }
}
