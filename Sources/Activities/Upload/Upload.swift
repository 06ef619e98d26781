package import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

/// One run of a job of the kind `upload`: it sends files of the store and stores the response.
///
/// The server knows nothing of fencing tokens, so it cannot reject the request of a run that has lost its lease. That
/// is why an upload that is not idempotent is sent at most once, as in `Call`. A tus upload continues at the offset
/// that the server reports.
package final class Upload: Activity, RunRemainder {
    struct State {
        /// The request in progress.
        var sending: SendingProgress?
        /// Bytes that the server had received before the request in progress.
        var alreadyReceived: Int64 = 0
        /// Bytes that this run's earlier requests have sent.
        var sentByEarlierRequests: Int64 = 0
        /// Bytes of all files.
        var total: Int64?
        var meter = SpeedMeter()
        /// A request that must not be repeated was sent, and failed.
        var hasSentUnrepeatable = false
        /// The last one of these got no response, although earlier ones did.
        var isUnanswered = false
        var response: StoredResponse?
        var tus: TusUpload?
        /// The host whose limit counts this run's connection; nil if none does, or once the host has refused it.
        var countedHost: String?
        /// How many tus uploads this run has created.
        var createdUploads = 0
        /// The results of the files, if each is sent by itself.
        var fileResults: FileResults?
    }

    let assignment: Assignment
    let context: ActivityContext
    let plan: UploadPlan
    /// A body of more bytes, or of an unknown length, is offered to the server first (RFC 9110 section 10.1.1).
    private static let minOfferedBytes: Int64 = 1 << 20
    private let limit: TokenBucket?
    let io: RunIO
    private let digests = DigestSession()
    let state = Mutex(State())

    package init(_ assignment: Assignment, _ io: RunIO, context: ActivityContext) {
        (self.assignment, self.io, self.context) = (assignment, io, context)
        plan = UploadPlan(assignment.job)
        limit = assignment.job.limitRate.map { TokenBucket(bytesPerSecond: $0) }
        // Restored before the run starts. Otherwise the resume point of a run that fails before it sends anything would
        // have no upload, and Redis would forget it.
        let tus = resumed
        state.withLock { state in
            state.fileResults = plan.isEach ? FileResults(plan, assignment.resume) : nil
            state.tus = tus
        }
    }

    var job: Job { assignment.job }
    var responseStorage: ResponseStorage {
        ResponseStorage(job: job, clock: assignment.clock, requestDigest: plan.digest, receiver: context.receiver)
    }

    // MARK: Called from other threads

    package var executor: any TaskExecutor { context.engine.executor }

    package func progress() -> ActivityProgress {
        state.withLock { state in
            var progress = ActivityProgress()
            progress.received = state.alreadyReceived + (state.sending?.sent ?? 0)
            progress.total = state.total
            progress.connections = state.sending == nil ? 0 : 1
            progress.isSending = true
            progress.transferred = state.sentByEarlierRequests + (state.sending?.totalSent ?? 0)
            state.meter.sample(progress.transferred)
            (progress.speed, progress.average) = (state.meter.speed, state.meter.average)
            return progress
        }
    }

    package var mustNotBeInterrupted: Bool { !isRepeatable }

    private var isRepeatable: Bool {
        plan.isRepeatable || state.withLock { !$0.hasSentUnrepeatable && !($0.sending?.hasBegun ?? false) }
    }

    var response: StoredResponse? { state.withLock { $0.response } }

    /// The tus upload that an earlier run has left.
    var resumed: TusUpload? {
        guard plan.isTus, var upload = assignment.resume.flatMap({ TusUpload($0, of: plan) }) else { return nil }
        if assignment.isResumeExact { upload.sentEnd = upload.unanswered.map { $0.offset + $0.sent } }
        return upload
    }

    package func checkpoint() async -> (point: ResumePoint?, isPartial: Bool) { (resumePoint, false) }

    package func finalCheckpoint() async -> ResumePoint? { resumePoint }

    /// What the next run needs to continue. It names no file, since an upload keeps no partial file.
    var resumePoint: ResumePoint? {
        state.withLock { state in
            let storeState: String
            if plan.isTus {
                // An empty store state makes Redis forget an upload that can no longer be continued.
                guard state.tus != nil || assignment.resume != nil || state.createdUploads > 0 else { return nil }
                storeState = state.tus?.storeState(of: plan) ?? ""
            } else if let results = state.fileResults {
                storeState = results.storeState
            } else {
                return nil
            }
            var point = ResumePoint(
                generation: state.tus?.generation ?? assignment.token, store: context.store.id, file: "",
                entity: Entity(total: state.total), source: MaskedURL.text(plan.url), storeState: storeState)
            if let offset = state.tus?.offset, offset > 0 { point.offsets.insert(0..<offset) }
            return point
        }
    }

    package func discard(soon: Bool) async { await terminate() }

    // MARK: The run

    package func run() async -> ActivityResult {
        var result = ActivityResult(await outcome(), progress())
        let known = resumed?.offset ?? 0
        (result.response, result.isRepeatable, result.remainder) = (response, isRepeatable, self)
        result.hasMadeProgress = state.withLock { ($0.tus?.offset ?? 0) - known >= 64 << 10 }
        return result
    }

    private func outcome() async -> ActivityOutcome {
        if assignment.wasSent, !plan.isRepeatable { return .failed(ResponseStorage.lostRun) }
        let begun = ContinuousClock.now
        var files: [Opened] = []
        do throws(TransferError) {
            if let conflict = plan.conflict { throw conflict }
            files = try await open()
            guard let url = WebURL(plan.url) else {
                throw TransferError(.badJob, "\(MaskedURL.text(plan.url)) is not a valid http or https URL")
            }
            guard await io.waitForHost({ await context.hosts.enter(url.hostAndPort) }) else { return .stopped }
            state.withLock { $0.countedHost = url.hostAndPort }
            defer {
                state.withLock { $0.countedHost = nil }
                context.hosts.leave(url.hostAndPort)
            }
            if !plan.isRepeatable, await !io.markSent() { return .stopped }
            var response: StoredResponse
            if plan.isTus {
                response = try await sendByTus(files[0].source, to: url)
            } else if plan.isEach {
                response = try await sendEach(files)
            } else {
                response = try await send(files, to: url)
            }
            response.uploaded = files.reduce(0) { $0 + ($1.source.size ?? 0) }
            return .responded(response, seconds: (ContinuousClock.now - begun).secondsValue, unchanged: false)
        } catch {
            if case .failed(let failure) = error, [.sourceChanged, .sourceMissing].contains(failure.code) {
                await terminate()
            }
            let mayHaveArrived = state.withLock { $0.isUnanswered } || !isRepeatable && response == nil
            return ResponseStorage.outcome(
                of: explaining(error, files), mayHaveArrived: mayHaveArrived, in: context.store)
        }
    }

    /// Opens all files before anything is sent.
    private func open() async throws(TransferError) -> [Opened] {
        guard let sources = context.sources else {
            throw TransferError(
                .pathForbidden,
                "this worker may send no files: set --upload-from (HAUL_UPLOAD_FROM) to the directory that uploads may read, then retry the job"
            )
        }
        var files: [Opened] = []
        for file in plan.files {
            let source = try await sources.source(file.file)
            // A form has the files' lengths in its own, and a digest is sent before the bytes.
            try await (source as? any SourceStream)?.findSize(isRequired: plan.isForm || plan.contentDigest != nil)
            files.append((file, source))
        }
        let sizes = files.compactMap(\.source.size)
        let total = sizes.count == files.count ? sizes.reduce(0, +) : nil
        state.withLock { $0.total = total }
        return files
    }

    /// Says why an error ends the upload that is retried elsewhere: the first bytes of a stream are gone.
    private func explaining(_ error: TransferError, _ files: [Opened]) -> TransferError {
        guard case .failed(var failure) = error, !plan.isTus, RetryPolicy.isRetryable(failure),
            let stream = files.lazy.compactMap({ $0.source as? any SourceStream }).first(where: { $0.keptFrom > 0 })
        else { return error }
        failure.isFinal = true
        failure.message +=
            "; it cannot be sent again, because the first \(stream.keptFrom) bytes of the pipe are gone: send a file, or use a tus server (--tus), which keeps what it has"
        return .failed(failure)
    }

    /// Sends one request, and shows its progress.
    ///
    /// - Parameter alreadyReceived: Bytes of the files that the server already has.
    func sendRequest(
        _ url: WebURL, _ method: String, _ headers: [HeaderField], custom: [HeaderField], body: RequestBody?,
        alreadyReceived: Int64 = 0, from finalURL: FinalURL? = nil
    ) async throws(TransferError) -> (Transfer, FinalURL) {
        let sending = SendingProgress()
        state.withLock { state in
            state.sentByEarlierRequests += state.sending?.totalSent ?? 0
            (state.sending, state.alreadyReceived) = (sending, alreadyReceived)
        }
        var template = HTTPRequest(url: "")
        (template.method, template.body) = (method, body)
        template.connectTimeout = job.connectTimeout ?? context.connectTimeout
        template.stallTimeout = job.stallTimeout ?? context.stallTimeout
        template.limits = [limit, context.limit].compactMap(\.self) + assignment.limits
        template.hostBuckets = assignment.hostBuckets
        template.isSentOnce = !plan.isRepeatable
        template.expectsContinue = body.map { $0.count ?? .max > Self.minOfferedBytes } ?? false
        template.sending = sending
        let follower = RedirectFollower(
            engine: context.engine, template: template, custom: custom, digests: digests,
            cookies: assignment.cookies, trace: io.trace, authentication: context.authentication, repeatsPOST: true)
        do throws(TransferError) {
            let (transfer, end) = try await follower.send(url, [.identity] + headers, from: finalURL)
            if [429, 503].contains(transfer.head.status) {
                refused(by: url.hostAndPort, retryAfter: responseStorage.refusal(transfer.head).retryAfter)
            }
            return (transfer, end)
        } catch {
            if case .failed(let failure) = error, failure.code == .connect { refused(by: url.hostAndPort) }
            throw error
        }
    }

    /// A run makes many requests, and its host's limit counts one connection for all of them. So only the first refusal is
    /// one of a connection. Later ones, and those of other hosts, only say for how long the host is to be left alone.
    private func refused(by host: String, retryAfter: Duration? = nil) {
        let isCounted = state.withLock { state in
            guard state.countedHost == host else { return false }
            state.countedHost = nil
            return true
        }
        if isCounted {
            context.hosts.backOff(host, retryAfter: retryAfter)
        } else if let retryAfter {
            context.hosts.close(host, for: retryAfter)
        }
    }

    /// Bytes of the body that the last request has sent.
    var sent: Int64 { state.withLock { $0.sending?.sent ?? 0 } }
    /// Bytes of the body that the server's TCP has acknowledged.
    var confirmed: Int64 { state.withLock { $0.sending?.confirmed ?? 0 } }
}
