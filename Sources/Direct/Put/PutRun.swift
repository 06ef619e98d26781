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
        var view: GetRun.View
        /// The attempt that runs.
        var attempt: Attempt?
        /// The server has responded at least once.
        var isReached = false
        /// The first retry was printed. The row tells of the others.
        var hasRetried = false
        var resume: ResumePoint?
    }

    let item: PutPlan.Item
    private let settings: GetSettings
    private let context: ActivityContext
    private let reporter: GetReporter
    private let state: Mutex<State>

    init(_ item: PutPlan.Item, _ settings: GetSettings, _ context: ActivityContext, _ reporter: GetReporter) {
        (self.item, self.settings, self.context, self.reporter) = (item, settings, context, reporter)
        var view = GetRun.View(name: item.label)
        view.ending = "waiting for the answer"
        state = Mutex(State(view: view))
    }

    var view: GetRun.View {
        var (view, attempt) = state.withLock { ($0.view, $0.attempt) }
        if let attempt { (view.progress, view.isHeld) = (attempt.progress, attempt.isWaitingForHost) }
        return view
    }

    /// Runs until the upload has ended, or the time of `--max-time`.
    ///
    /// - Parameter record: Sees all responses. nil makes one if anybody asks.
    func runInTime(recordedBy given: TransferRecord? = nil) async -> End {
        let record = given ?? settings.record(isNeeded: false, trace: reporter.trace(of: item.label))
        let (end, late) = await TimeLimit.run(settings.maxTime, "it") {
            await TransferRecord.observe(record) { await self.run() }
        }
        guard let late, case .stopped = end else { return end }
        return .failed(late, nil)
    }

    /// Runs until the upload has ended. Cancelling the task stops it.
    func run() async -> End {
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
                let wrong = await settings.wrongScheme(failure, of: url)
            {
                return .failed(wrong, nil)
            }
            let isReached = state.withLock { $0.isReached }
            guard
                let wait = settings.delay(
                    after: failure, result, isReached: isReached, of: item.job, failed: &failed)
            else { return .failed(failure, result.response) }
            if let tooLong = GetSettings.refusal(of: wait, after: failure) { return .failed(tooLong, result.response) }
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
        assignment.resume = state.withLock { $0.resume }
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
            // A connection that was never made sent nothing.
            if result.progress.transferred > 0 || result.response != nil { state.isReached = true }
            state.resume = resume ?? state.resume
        }
        // No record remains when this command ends, so no later command could continue the upload.
        if case .stopped = result.outcome { await result.remainder?.discard(soon: false) }
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
            reporter.record("\(item.label): goes on at \(Units.bytes(offset))\(whole)")
        case .restarted(let why): reporter.record("\(item.label): restarts: \(why)")
        case .warning(let text): reporter.record("\(item.label): \(text)")
        case .started: break
        }
    }
}
