import Glibc
import HaulActivities
import HaulBus
import HaulContract
import HaulStorage
import HaulTerminal

// `-o -`: one file, to standard output.
extension Get {
    /// With a checksum the whole file is fetched and verified before its first byte is written. Without one the bytes
    /// are written as they arrive, and a message says so.
    func writeToStandardOutput(_ settings: GetSettings) async throws {
        let plan = try await GetPlan(source, request, settings, isVerbose: verbose)
        guard let item = plan.items.first, plan.items.count == 1 else {
            throw ExitStatus.printing(
                .usage, "-o - writes one file to standard output, and \(plan.items.count) are given")
        }
        let reporter = makeReporter()
        if item.job.checksum != nil { return try await spool(item, settings, reporter) }
        reporter.record(
            "bytes are written as they arrive, and only their number is verified; with --checksum the whole file is verified "
                + "before its first byte is written")
        let work = Task { await stream(item, settings, reporter) }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        let result = await work.value
        reporter.draw([])
        await reporter.flush()
        if work.isCancelled { throw ExitStatus.interrupted }
        guard case .failed(let failure) = result.end else {
            if case .completed = result.end {
                reporter.record("\(Units.bytes(result.bytes ?? 0)) written; verified: \(result.verified)")
                await reporter.flush()
            }
            return
        }
        throw ExitStatus.printing(.jobFailed, "\(failure)")
    }

    /// Makes as many attempts as needed. Each uses one connection, because bytes are written in their order.
    private func stream(_ item: GetItem, _ settings: GetSettings, _ reporter: GetReporter) async -> GetResult {
        var job = item.job
        (job.connections, job.path) = (1, nil)
        let context = settings.context(OutputStore(OutputPipe(STDOUT_FILENO)))
        var (failed, isReached) = (0, false)
        var resume: ResumePoint?
        while true {
            var assignment = Assignment(
                job: job, token: Token.make(), key: item.key, clock: SharedClock(serverTime: UnixTime.milliseconds))
            (assignment.resume, assignment.isNew) = (resume, true)
            assignment.cookies = settings.cookies(for: item)
            let io = RunIO(Host(item: item, reporter: reporter))
            let attempt = Attempt()
            let bars = Task { await Self.show(attempt, item, reporter) }
            let result = await attempt.runUntilCancelled(Download(assignment, io, context: context), io)
            bars.cancel()
            await bars.value
            isReached = isReached || result.progress.transferred > 0
            switch result.outcome {
            case .completed(let file, _, _):
                var end = GetResult(end: .completed)
                (end.bytes, end.checksum) = (file.bytes, file.checksum)
                end.verified = Verification.words(file, job, nil, isUnchanged: false)
                return end
            case .failed(let failure):
                resume = await result.remainder?.finalCheckpoint() ?? resume
                let retries = settings.retries(after: failure, isReached: isReached, of: job)
                let wait: Duration
                switch RetryPolicy.judge(failure, after: result, failed: failed, retries: retries) {
                case .end: return GetResult(end: .failed(failure))
                case .retryAfterProgress(let delay): (wait, failed) = (delay, 0)
                case .retry(let delay): (wait, failed) = (delay, failed + 1)
                }
                reporter.record("\(failure.message); again in \(Units.duration(wait.secondsValue))")
                try? await Task.sleep(for: wait)
                if Task.isCancelled { return GetResult(end: .stopped) }
            // Only requests and uploads end with a response.
            case .parked, .stopped, .fenced, .responded: return GetResult(end: .stopped)
            }
        }
    }

    /// Nothing of an attempt is recorded, because the next one continues behind the bytes that were written.
    private struct Host: RunHost {
        let item: GetItem
        let reporter: GetReporter

        var trace: (@Sendable (String) -> Void)? {
            guard reporter.isVerbose else { return nil }
            return { [reporter, item] in reporter.decision(item, $0) }
        }

        func report(_ event: ActivityEvent) {}
    }

    private static func show(_ attempt: Attempt, _ item: GetItem, _ reporter: GetReporter) async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(200))
            var view = GetRun.View(name: item.label)
            (view.phase, view.progress) = (.running, attempt.progress)
            let size = reporter.size
            reporter.draw(GetBars.lines([view], GetBars.Totals(all: 1), width: size.width, height: size.height))
        }
    }

    /// Fetches the file into a temporary directory, and writes it to standard output once it is verified.
    private func spool(_ item: GetItem, _ settings: GetSettings, _ reporter: GetReporter) async throws {
        let scratch = try ScratchDirectory(names: ["file"])
        defer { scratch.remove() }
        var job = item.job
        job.path = "file"
        let spooled = GetItem(job: job, root: scratch.path, members: item.members)
        let runner = GetRunner([spooled], settings, scratch.downloadLog, reporter, parallel: 1)
        let work = Task { await runner.run() }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        let result = await work.value[0].1
        reporter.draw([])
        await reporter.flush()
        if work.isCancelled { throw ExitStatus.interrupted }
        if case .failed = result.end { throw ExitStatus.jobFailed }
        reporter.record("verified before the first byte: \(result.verified)")
        await reporter.flush()
        let pipe = OutputPipe(STDOUT_FILENO)
        do { try await pipe.copy(scratch.path + "/file") } catch { throw ExitStatus.printing(.jobFailed, "\(error)") }
    }
}
