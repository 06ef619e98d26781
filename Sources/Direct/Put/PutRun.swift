import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTerminal
import Synchronization

/// One upload of `haul put`, or one request of `haul call`, with as many attempts as it needs.
final class PutRun: RunHost {
    enum End: Sendable {
        case responded(StoredResponse, seconds: Double)
        case failed(Failure, StoredResponse?)
        /// The upload was interrupted.
        case stopped
    }

    private struct State {
        var view: TransferView
        /// The current attempt.
        var attempt: Attempt?
        /// Bytes were sent to the server, or it has responded. Until then the host name may be mistyped.
        var hasReachedServer = false
        /// The first retry is printed. The progress bar shows the others.
        var hasRetried = false
        var resume: ResumePoint?
        /// What the last attempt has left at the server.
        var remainder: (any RunRemainder)?
    }

    let item: PutPlan.Item
    private let settings: TransferSettings
    private let context: ActivityContext
    private let reporter: TransferReporter
    private let state: Mutex<State>

    init(_ item: PutPlan.Item, _ settings: TransferSettings, _ context: ActivityContext, _ reporter: TransferReporter) {
        (self.item, self.settings, self.context, self.reporter) = (item, settings, context, reporter)
        var view = TransferView(name: item.label)
        view.ending = "waiting for the response"
        state = Mutex(State(view: view))
    }

    var view: TransferView {
        var (view, attempt) = state.withLock { ($0.view, $0.attempt) }
        if let attempt { (view.progress, view.isHeld) = (attempt.progress, attempt.waitsFor == .host) }
        return view
    }

    /// Runs until the upload has ended, or the time of `--max-time`.
    ///
    /// - Parameter given: The record of all responses. If it is nil, a record is made only if an option needs one.
    func runWithTimeLimit(recordedBy given: TransferRecord? = nil) async -> End {
        let record = given ?? settings.record(isNeeded: false, trace: reporter.trace(of: item.label))
        let (end, timeout) = await TimeLimit.run(settings.maxTime, "it") {
            await TransferRecord.observe(record) { await self.run() }
        }
        guard let timeout, case .stopped = end else { return end }
        return .failed(timeout, nil)
    }

    /// Runs until the upload has ended. Cancelling the task stops it.
    func run() async -> End {
        let end = await attempts()
        let remainder = state.withLock { $0.remainder.take() }
        if case .responded = end { return end }
        // This command keeps no record of the upload, so no later command could continue it.
        await remainder?.discard(soon: false)
        return end
    }

    private func attempts() async -> End {
        let begun = ContinuousClock.now
        var failed = 0
        while true {
            let result = await attempt()
            guard case .failed(let error) = result.outcome else {
                if case .responded(let response, _, _) = result.outcome {
                    return .responded(response, seconds: (ContinuousClock.now - begun).secondsValue)
                }
                return .stopped
            }
            let failure = error.inCommand(item.job.kind)
            if result.response == nil, let url = item.job.urls.first,
                let schemeFailure = await settings.schemeFailure(failure, of: url)
            {
                return .failed(schemeFailure, nil)
            }
            let hasReachedServer = state.withLock { $0.hasReachedServer }
            guard
                let wait = settings.delay(
                    after: failure, result, hasReachedServer: hasReachedServer, of: item.job, failed: &failed)
            else { return .failed(failure, result.response) }
            if let tooLong = TransferSettings.refusal(of: wait, after: failure) {
                return .failed(tooLong, result.response)
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

    private func attempt() async -> ActivityResult {
        let token = Token.make()
        var assignment = Assignment(
            job: item.job, token: token, key: Job.Checksum.Algorithm.sha1.hexadecimal(of: token),
            clock: SharedClock(serverTime: UnixTime.milliseconds))
        (assignment.resume, assignment.isResumeExact) = (state.withLock { $0.resume }, true)
        assignment.cookies = settings.cookies(for: item.job.urls)
        let (attempt, io) = (Attempt(), RunIO(self))
        state.withLock { ($0.attempt, $0.view.phase) = (attempt, .running) }
        let activity: any Activity =
            item.job.kind == .request
            ? Call(assignment, io, context: context) : Upload(assignment, io, context: context)
        let result = await attempt.runUntilCancelled(activity, io)
        let resume = await result.remainder?.finalCheckpoint()
        state.withLock { state in
            state.view.progress = result.progress
            state.attempt = nil
            if result.progress.transferred > 0 || result.response != nil { state.hasReachedServer = true }
            state.resume = resume ?? state.resume
            state.remainder = result.remainder
        }
        return result
    }

    var trace: (@Sendable (String) -> Void)? {
        guard reporter.isVerbose else { return nil }
        return { [reporter, item] in reporter.printError("* \(item.label): \($0)") }
    }

    func report(_ event: ActivityEvent) {
        switch event {
        case .resumed(let offset, let total):
            let whole = total.map { " of " + Units.bytes($0) } ?? ""
            reporter.record("\(item.label): continues at \(Units.bytes(offset))\(whole)")
        case .restarted(let why): reporter.record("\(item.label): restarts: \(why)")
        case .warning(let text): reporter.record("\(item.label): \(text)")
        case .started: break
        }
    }
}
