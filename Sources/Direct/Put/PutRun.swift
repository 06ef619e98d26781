import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTerminal
import Synchronization

/// One upload of `haul put`, with as many attempts as it needs.
final class PutRun: Sendable {
    enum End: Sendable {
        case responded(StoredResponse, seconds: Double)
        case failed(Failure, StoredResponse?)
        /// The upload was interrupted.
        case stopped
    }

    private struct State {
        var view: GetRun.View
        var activity: Upload?
        /// The server has responded at least once.
        var isReached = false
        /// The first retry was printed. The row tells of the others.
        var hasRetried = false
        var resume: ResumePoint?
    }

    let item: PutPlan.Item
    private let settings: GetSettings
    private let context: DownloadContext
    private let reporter: GetReporter
    private let state: Mutex<State>

    init(_ item: PutPlan.Item, _ settings: GetSettings, _ context: DownloadContext, _ reporter: GetReporter) {
        (self.item, self.settings, self.context, self.reporter) = (item, settings, context, reporter)
        var view = GetRun.View(name: item.label)
        view.ending = "waiting for the answer"
        state = Mutex(State(view: view))
    }

    var view: GetRun.View {
        let (known, activity) = state.withLock { ($0.view, $0.activity) }
        var view = known
        if let activity { (view.progress, view.isHeld) = (activity.progress(), activity.isWaitingForHost) }
        return view
    }

    /// Runs until the upload has ended. Cancelling the task stops it.
    func run() async -> End {
        let begun = ContinuousClock.now
        var failed = 0
        while true {
            let (upload, outcome) = await attempt()
            guard case .failed(let failure) = outcome else {
                if case .responded(let response, _, _) = outcome {
                    return .responded(response, seconds: (ContinuousClock.now - begun).secondsValue)
                }
                return .stopped
            }
            if upload.response == nil, let url = item.job.urls.first,
                let wrong = await settings.wrongScheme(failure, of: url)
            {
                return .failed(wrong, nil)
            }
            let retries = settings.retries(
                after: failure, isReached: state.withLock { $0.isReached }, of: item.job)
            let wait: Duration
            switch RetryPolicy.judge(failure, of: upload, failed: failed, retries: retries) {
            case .end: return .failed(failure, upload.response)
            case .retryAfterProgress(let delay): (wait, failed) = (delay, 0)
            case .retry(let delay): (wait, failed) = (delay, failed + 1)
            }
            let isFirst = state.withLock { state in
                defer { state.hasRetried = true }
                state.view.phase = .retrying(at: .now + wait, why: failure.code.rawValue)
                return !state.hasRetried
            }
            if isFirst || reporter.isVerbose {
                reporter.record("\(item.label): \(failure.message); again in \(Units.duration(wait.secondsValue))")
            }
            try? await Task.sleep(for: wait)
            if Task.isCancelled { return .stopped }
        }
    }

    private func attempt() async -> (Upload, ActivityOutcome) {
        let token = Token.make()
        var assignment = Assignment(
            job: item.job, token: token, key: Job.Checksum.Algorithm.sha1.hexadecimal(of: token),
            clock: SharedClock(serverTime: UnixTime.milliseconds),
            lease: RunLease(isHeld: { true }, confirm: { true }), report: { [weak self] in self?.handle($0) })
        assignment.resume = state.withLock { $0.resume }
        assignment.cookies = settings.cookies(for: item.job.urls)
        if reporter.isVerbose {
            assignment.trace = { [reporter, item] in reporter.complain("* \(item.label): \($0)") }
        }
        let upload = Upload(assignment, context: context)
        state.withLock { ($0.activity, $0.view.phase) = (upload, .running) }
        let task = Task(executorPreference: upload.executor) { await upload.run() }
        let outcome = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        let resume = await upload.finalCheckpoint()
        state.withLock { state in
            state.view.progress = upload.progress()
            state.activity = nil
            // A connection that was never made sent nothing.
            if upload.transferred > 0 || upload.response != nil { state.isReached = true }
            state.resume = resume ?? state.resume
        }
        // No record remains when this command ends, so no later command could continue the upload.
        if case .stopped = outcome { await upload.discard(soon: false) }
        return (upload, outcome)
    }

    private func handle(_ event: ActivityEvent) {
        switch event {
        case .resumed(let offset, let total):
            let whole = total.map { " of " + Units.bytes($0) } ?? ""
            reporter.record("\(item.label): goes on at \(Units.bytes(offset))\(whole)")
        case .restarted(let why): reporter.record("\(item.label): restarts: \(why)")
        case .warning(let text): reporter.record("\(item.label): \(text)")
        case .started: break
        }
    }
}
