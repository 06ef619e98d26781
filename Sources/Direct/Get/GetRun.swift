import Glibc
import HaulActivities
import HaulBus
import HaulContract
import HaulFileStore
import HaulHTTP
import HaulStorage
import HaulTerminal
import Synchronization

/// One download of `haul get`, with as many attempts as it needs.
final class GetRun: RunHost {
    private struct State {
        var view: TransferView
        /// The attempt that runs.
        var current: (attempt: Attempt, download: Download)?
        var record: GetRecord?
        /// The record of another URL whose object has the same name in the bucket.
        var other: GetRecord?
        /// A server has responded at least once.
        var hasReachedServer = false
        /// Bytes received in all attempts.
        var transferred: Int64 = 0
        var completeness = Completeness.length
    }

    let item: GetItem
    private let settings: TransferSettings
    private let downloadLog: DownloadLog
    private let names: GetNames
    private let reporter: TransferReporter
    /// A command runs as soon as the file is there. It must find nothing hidden beside the file.
    private let hasHook: Bool
    private let state: Mutex<State>
    private let begun = ContinuousClock.now
    /// How long after Ctrl-C a store may take to keep what has arrived, like the grace time of a worker. A second
    /// Ctrl-C does not wait.
    private static let grace = Duration.seconds(10)
    private static let graceHasEnded: @Sendable () async -> Void = { try? await Task.sleep(for: grace) }

    init(
        _ item: GetItem, _ settings: TransferSettings, _ downloadLog: DownloadLog, _ names: GetNames,
        _ reporter: TransferReporter, hasHook: Bool = false
    ) {
        (self.item, self.settings, self.downloadLog) = (item, settings, downloadLog)
        (self.names, self.reporter, self.hasHook) = (names, reporter, hasHook)
        state = Mutex(State(view: TransferView(name: item.label)))
    }

    var view: TransferView {
        var (view, attempt) = state.withLock { ($0.view, $0.current?.attempt) }
        if let attempt { (view.progress, view.isHeld) = (attempt.progress, attempt.waitsFor == .host) }
        return view
    }

    // MARK: All attempts

    /// Runs until the download has ended. Cancelling the task stops it, and keeps what can be continued.
    func run() async -> GetResult {
        let store: any Store
        do { store = try await settings.stores.store(item.root) } catch { return GetResult(end: .failed(error)) }
        guard let claim = await claim() else { return GetResult(end: .stopped) }
        defer { withExtendedLifetime(claim.lock) {} }
        var before = claim.record
        var isClean = true
        do throws(TransferError) {
            isClean = try await before?.settle(in: store, downloadLog, isDurable: settings.isDurable) ?? true
            if item.isSkippable, try await BucketName.exists(item.likelyPath, in: store) {
                // Without a completed file the object may be the one of this download, whose run was killed before it
                // recorded that.
                if let before, before.isOpen, before.completed != nil { await close(before, in: store) }
                return GetResult(end: .skipped, file: item.likelyPath)
            }
        } catch {
            guard case .failed(let failure) = error else { return GetResult(end: .stopped) }
            return GetResult(end: .failed(failure))
        }
        if var other = before, await other.isEnded(by: item, in: store) {
            state.withLock { $0.other = other }
            (before, isClean) = (nil, true)
        }
        let (own, other) = await downloadLog.owner(of: item, before, store.id, isNew: claim.isBegun)
        // In a bucket the store handles an object that has the name.
        let standing =
            GetTarget.isBucket(item.root)
            ? nil
            : UnrecordedFile(
                item, in: store, own: own, hasOtherURL: other, unfinished: before?.unfinished, downloadLog, names)
        if item.isSkippable, standing?.exists == true {
            return GetResult(end: .skipped, file: item.likelyPath)
        }
        if before?.isOpen != true, let file = await standing?.existingFileByChecksum() {
            return result(of: file, standing, isUnchanged: true)
        }
        if claim.isBegun { return await attempts(standing, store, isNew: true) }
        var record = GetRecord(item, run: Token.make(), completed: own)
        if let before {
            (record.resume, record.unfinished, record.bucketKey) = (before.resume, before.unfinished, before.bucketKey)
        }
        state.withLock { $0.record = record }
        await save(isDurable: false)
        return await attempts(standing, store, isNew: isClean)
    }

    /// Waits for the lock. nil if the task is cancelled before that.
    private func claim() async -> DownloadLog.Claim? {
        var isSaid = false
        // A download of which nothing is known begins with its claim, unless a file may end it before.
        let isBegun = item.ifExists != .skip && item.job.checksum == nil
        let record = isBegun ? GetRecord(item, run: Token.make(), completed: nil) : nil
        let file = GetTarget.isBucket(item.root) ? nil : item.likelyPath
        while !Task.isCancelled {
            if let claim = await downloadLog.claim(item.key, file: file, in: item.root, initial: record) {
                if claim.isBegun { state.withLock { $0.record = record } }
                return claim
            }
            if !isSaid { reporter.record("\(item.label): another haul get is downloading it; waiting for that") }
            isSaid = true
            state.withLock { $0.view.phase = .waiting("waiting for another haul get") }
            try? await Task.sleep(for: .milliseconds(100))
        }
        return nil
    }

    private func attempts(_ standing: UnrecordedFile?, _ store: any Store, isNew: Bool) async -> GetResult {
        var failed = 0
        var isNew = isNew
        // A download that continues has its name already, and must not replace the file of another one of this command.
        if item.job.ifExists == .overwrite, let file = state.withLock({ $0.record?.resume?.file }) {
            do throws(Failure) { try names.reserve(file, for: item) } catch { return await fail(error, in: store) }
        }
        while true {
            let result = await attempt(standing, store, isNew: isNew)
            isNew = false
            let failure: Failure
            switch await step(after: result, standing, store) {
            case .end(let result): return result
            case .again: continue
            case .failed(let error): failure = error
            }
            // A job with a type of its own follows none, so no other response has this code.
            if item.followsMetalink, failure.code == .wrongContentType {
                await discard(result.remainder)
                await forget()
                return GetResult(end: .metalink)
            }
            if !state.withLock({ $0.hasReachedServer }), let url = item.job.urls.first,
                let wrong = await settings.schemeFailure(failure, of: url)
            {
                return await fail(wrong, in: store)
            }
            if standing?.isDisproved == true { await discardCopy(result) } else { await saveCheckpoint(result) }
            let hasReachedServer = state.withLock { $0.hasReachedServer }
            guard
                let wait = settings.delay(
                    after: failure, result, hasReachedServer: hasReachedServer, of: item.job, failed: &failed)
            else {
                guard failure.code == .fileExists, item.isSkippable else { return await fail(failure, in: store) }
                // The file was made during this download, and `skip` keeps that file: drop the bytes.
                await discard(result.remainder)
                await forget()
                return GetResult(end: .skipped, file: item.likelyPath)
            }
            if let tooLong = TransferSettings.refusal(of: wait, after: failure) {
                return await fail(tooLong, in: store)
            }
            let retries = settings.retries(after: failure, hasReachedServer: hasReachedServer, of: item.job)
            reporter.retrying(self, failure, after: wait, attempt: failed, of: retries)
            state.withLock { $0.view.phase = .retrying(at: .now + wait, why: failure.code.rawValue) }
            try? await Task.sleep(for: wait)
            if Task.isCancelled { return GetResult(end: .stopped) }
        }
    }

    /// What to do after an attempt. The caller decides whether a failure is retried.
    private enum Step {
        case end(GetResult)
        case again
        case failed(Failure)
    }

    private func step(
        after result: ActivityResult, _ standing: UnrecordedFile?, _ store: any Store
    ) async -> Step {
        switch result.outcome {
        case .completed(let file, _, let isUnchanged):
            return .end(await complete(result, file, standing, store, isUnchanged: isUnchanged))
        // Only requests and uploads end with a response.
        case .stopped, .responded:
            await saveCheckpoint(result)
            return .end(GetResult(end: .stopped))
        case .fenced:
            return .failed(Failure(.io, "another program has taken or removed the partial file", isFinal: true))
        case .parked(let why):
            let reason =
                await store.fault().map { Failure(.io, $0).inCommand(.download).message }?
                .replacing("the root ", with: "it ")
                ?? (why == "disk" ? "the disk has no space for this file" : why)
            return .failed(
                Failure(
                    .io, "\(item.root): \(reason); when that is fixed, the same command continues", isFinal: true))
        case .failed(let error):
            guard let left = standing?.takeUnfinished() else { return .failed(error.inCommand(.download)) }
            switch await copyBytes(from: left, in: store) {
            case nil: return .again
            case .cancelled: return .end(GetResult(end: .stopped))
            case .noSpace:
                return .failed(Failure(.io, "the disk has no space for a copy of \(left.file.file)", isFinal: true))
            case .failed(let failure): return .failed(failure.inCommand(.download))
            }
        }
    }

    /// Copies the bytes that another program left, for the next attempt. Returns nil on success.
    private func copyBytes(from left: UnfinishedFile, in store: any Store) async -> TransferError? {
        if left.written.isEmpty {
            state.withLock { $0.record?.unfinished = left.file }
            await save(isDurable: settings.isDurable)
            return nil
        }
        let run = Token.make()
        let record = state.withLock { state in
            state.view.phase = .waiting("copying what is there")
            // From here on the record names the copy. If this process is killed, the next run removes the copy.
            state.record?.run = run
            return state.record!
        }
        await downloadLog.write(record, isDurable: false)
        let request = FileRequest(
            key: item.key, runToken: run, isNew: false, path: item.job.path, ifExists: item.job.ifExists,
            completed: left.file, lease: runLease)
        let partial = store.begin(request, generation: run, suggested: left.file.file.pathParts.last ?? "")
        do throws(TransferError) {
            let resume = try await left.copy(to: partial, from: item.root, in: store)
            state.withLock { state in
                state.record?.resume = resume
                state.record?.unfinished = left.file
            }
        } catch { return error }
        await save(isDurable: settings.isDurable)
        return nil
    }

    // MARK: One attempt

    private func attempt(_ standing: UnrecordedFile?, _ store: any Store, isNew: Bool) async -> ActivityResult {
        let record = state.withLock { state in
            if !isNew { state.record?.run = Token.make() }
            return state.record!
        }
        var assignment = record.assignment(of: item, isNew: isNew)
        assignment.existing = if let standing { standing } else { BucketName(item: item, names: names, store: store) }
        assignment.cookies = settings.cookies(for: item)
        let io = RunIO(self)
        let (attempt, download) = (Attempt(), Download(assignment, io, context: settings.context(store)))
        state.withLock { state in
            state.current = (attempt, download)
            state.view.phase = .running
        }
        let result = await attempt.runUntilCancelled(download, io)
        state.withLock { state in
            state.view.progress = result.progress
            state.transferred += result.progress.transferred
            state.completeness = download.completeness
            state.current = nil
        }
        return result
    }

    var trace: (@Sendable (String) -> Void)? {
        guard reporter.isVerbose else { return nil }
        return { [reporter, item] in reporter.decision(item, $0) }
    }

    func report(_ event: ActivityEvent) {
        let file = state.withLock { $0.current?.download }?.partialLocation?.file
        state.withLock { state in
            state.hasReachedServer = true
            if let file { state.view.name = file }
        }
        reporter.report(self, event)
    }

    func record(_ point: ResumePoint, isUrgent: Bool, duration: Duration?) async {
        state.withLock { state in
            state.record?.resume = point
            state.view.name = point.file
        }
        await save(isDurable: settings.isDurable)
    }

    /// Begins a checkpoint if one is due.
    func checkpointIfDue(interval: Duration?) -> CheckpointSchedule.Due? {
        state.withLock { $0.current?.attempt }?.checkpointIfDue(interval: interval)
    }

    // MARK: The end

    private func save(isDurable: Bool) async {
        guard let record = state.withLock({ $0.record }) else { return }
        await downloadLog.write(record, isDurable: isDurable)
    }

    /// Removes the record. The one of an object that has kept the name comes back.
    private func forget() async {
        let (other, record) = state.withLock { ($0.other, $0.record) }
        if let other { return await downloadLog.write(other, isDurable: false) }
        guard var record, record.completed != nil else { return await downloadLog.remove(item.key) }
        // What the download had completed before stays its own.
        (record.resume, record.unfinished, record.isOpen) = (nil, nil, false)
        await downloadLog.write(record, isDurable: false)
    }

    /// Removes what is unfinished of a download that is skipped. What it has completed before stays its own.
    private func close(_ record: GetRecord, in store: any Store) async {
        for location in record.partialLocations { await store.discard(location) }
        state.withLock { $0.record = record }
        await forget()
    }

    /// Records the last checkpoint, or removes a partial file that no run could continue.
    private func saveCheckpoint(_ result: ActivityResult) async {
        switch await result.remainder?.retain(until: Self.graceHasEnded) {
        case .nothing: state.withLock { $0.record?.resume = nil }
        case .checkpoint(let point?): state.withLock { $0.record?.resume = point }
        case .checkpoint(nil), nil: break
        }
        await save(isDurable: settings.isDurable)
    }

    /// Removes the copy of another program's bytes, which no run could make the file of.
    private func discardCopy(_ result: ActivityResult) async {
        await discard(result.remainder)
        state.withLock { state in
            state.record?.resume = nil
            state.record?.unfinished = nil
        }
    }

    private func discard(_ remainder: (any RunRemainder)?, soon: Bool = false) async {
        guard let remainder else { return }
        if soon { return await remainder.discard(soon: true) }
        await outlastingCancellation(until: Self.graceHasEnded) { await remainder.discard(soon: false) }
    }

    private func complete(
        _ end: ActivityResult, _ file: CompletedFile, _ standing: UnrecordedFile?, _ store: any Store,
        isUnchanged: Bool
    ) async -> GetResult {
        let hidden = end.remainder?.partialLocation?.name ?? ""
        state.withLock { state in
            state.record?.isOpen = false
            state.record?.resume = nil
            state.record?.unfinished = nil
            state.view.name = file.file
            // A run that is killed from here on leaves at most this name.
            state.record?.hidden = hidden
            // A file that was only found here is not recorded: nothing proves that the server's validators are those of
            // its bytes.
            if standing?.proof == nil { state.record?.completed = file }
        }
        await standing?.removeControl(beside: file, isUnchanged: isUnchanged)
        if standing?.proof == nil { await save(isDurable: false) } else { await downloadLog.remove(item.key) }
        // The record names what a killed run leaves until then.
        await discard(end.remainder, soon: !hasHook && (store as? FileStore)?.defersWork == true)
        return result(of: file, standing, isUnchanged: isUnchanged)
    }

    private func fail(_ failure: Failure, in store: any Store) async -> GetResult {
        let (isContinuable, useless) = state.withLock { state in
            state.record?.hidden = nil
            let resume = state.record?.resume
            if resume?.offsets.isEmpty != false { state.record?.isOpen = false }
            let isContinuable = state.record.map { $0.isOpen || $0.completed != nil } ?? false
            return (isContinuable, resume?.offsets.isEmpty == true ? state.record?.partialLocations ?? [] : [])
        }
        // Nothing names this file any more once the record is closed.
        for location in useless { await store.discard(location) }
        if isContinuable { await save(isDurable: false) } else { await forget() }
        return GetResult(end: .failed(item.explained(failure, of: view.name)), received: view.progress.received)
    }

    private func result(
        of file: CompletedFile, _ standing: UnrecordedFile?, isUnchanged: Bool
    ) -> GetResult {
        var result = GetResult(end: isUnchanged ? .unchanged : .completed, file: file.file)
        (result.bytes, result.checksum, result.etag) = (file.bytes, file.checksum, file.entity.etag)
        result.seconds = (ContinuousClock.now - begun).secondsValue
        let (transferred, completeness) = state.withLock { ($0.transferred, $0.completeness) }
        result.transferred = transferred
        result.verified = Verification.label(
            file, item.job, standing?.proof, completeness, isUnchanged: isUnchanged)
        state.withLock { $0.view.name = file.file }
        return result
    }
}
