import Glibc
import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTerminal

// `-o -`, a pipe or a device: one file after another.
extension Get {
    /// With a checksum the whole file is fetched and verified before its first byte is written. Without one the bytes
    /// are written as they arrive, and a message says so.
    func writeToStreams(_ settings: TransferSettings, _ sender: GetSender, _ writeOut: WriteOut?) async throws {
        let plan = try await GetPlan(source, sender, settings, isVerbose: verbose)
        let reporter = makeReporter()
        if source.isToStandardOutput, plan.items.contains(where: { $0.job.checksum == nil }) {
            reporter.record(
                "bytes are written as they arrive, and at most their number is verified; with --checksum the whole file is verified "
                    + "before its first byte is written")
        }
        // One task for all files, so that a signal between two of them ends the command as well.
        let work = Task { try await write(plan.items, writeOut, settings, reporter) }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        // With --watch the task of all lists may have been cancelled before this one was made.
        let isWhole = try await withTaskCancellationHandler {
            try await work.value
        } onCancel: {
            work.cancel()
        }
        try settings.saveCookies()
        if work.isCancelled { throw ExitStatus.interrupted }
        if !isWhole { throw ExitStatus.jobFailed }
    }

    /// Writes the files one after another. Returns whether all of them are written.
    private func write(
        _ items: [GetItem], _ writeOut: WriteOut?, _ settings: TransferSettings, _ reporter: TransferReporter
    ) async throws -> Bool {
        var pipes: [String: OutputPipe] = [:]
        let last = Dictionary(zip(items.map { $0.stream ?? "-" }, items.indices)) { $1 }
        var isWhole = true
        for (index, item) in items.enumerated() where !Task.isCancelled {
            let path = item.stream ?? "-"
            let label = items.count > 1 ? "\(item.label): " : ""
            var known = pipes[path]
            if known == nil {
                do { known = try await Self.open(path, within: settings.maxTime, reporter) } catch let failure
                    as Failure
                {
                    reporter.printError("haul: \(label)\(failure)")
                    await reporter.flush()
                    isWhole = false
                    continue
                }
            }
            guard let pipe = known else { break }
            // Its reader sees the end once the last file for it is written, perhaps before another pipe has a reader.
            pipes[path] = last[path] == index ? nil : pipe
            let record = settings.record(isNeeded: writeOut != nil, trace: reporter.trace(of: item.label))
            let result = await writeInTime(item, to: pipe, record, settings, reporter)
            if case .failed(let failure) = result.end {
                reporter.printError("haul: \(label)\(failure)")
            } else if case .completed = result.end {
                reporter.record("\(label)\(Units.bytes(result.bytes ?? 0)) written; verified: \(result.verified)")
            }
            if let writeOut, let record { reporter.write(writeOut.pieces(WriteOut.Values(item, result, record))) }
            await reporter.flush()
            isWhole = isWhole && !result.isFailed
        }
        return isWhole
    }

    /// Writes one file, unless the time of `--max-time` ends before.
    private func writeInTime(
        _ item: GetItem, to pipe: OutputPipe, _ record: TransferRecord?, _ settings: TransferSettings,
        _ reporter: TransferReporter
    ) async -> GetResult {
        let begun = ContinuousClock.now
        let (ended, late) = await TimeLimit.run(settings.maxTime, "the download") {
            await TransferRecord.observe(record) { await write(item, to: pipe, settings, reporter) }
        }
        reporter.draw([])
        await reporter.flush()
        var result = ended
        if let late, case .stopped = result.end { result = GetResult(end: .failed(late)) }
        result.seconds = (ContinuousClock.now - begun).secondsValue
        result.transferred = result.bytes ?? 0
        return result
    }

    /// Opens a pipe, as soon as it has a reader, or a device. nil if the task is cancelled before.
    ///
    /// - Throws: A `Failure` if no reader has come in time; `ExitStatus.usage` if it cannot be written, and the reason has
    ///   been printed.
    private static func open(
        _ path: String, within seconds: Double?, _ reporter: TransferReporter
    ) async throws -> OutputPipe? {
        guard path != "-" else { return OutputPipe(STDOUT_FILENO) }
        let (opened, late) = await TimeLimit.run(seconds, "opening \(path), which has no reader,") {
            var isWaiting = false
            while !Task.isCancelled {
                let descriptor = Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK)
                // Nothing reads the pipe yet. An open that waits for its reader could not be cancelled.
                guard descriptor < 0, errno == ENXIO else { return (descriptor, errno) }
                if !isWaiting { reporter.record("\(path) has no reader yet, so the download waits for one") }
                isWaiting = true
                try? await Task.sleep(for: .milliseconds(20))
            }
            return (-1, EINTR)
        }
        guard opened.0 >= 0 else {
            if let late { throw late }
            if Task.isCancelled { return nil }
            throw ExitStatus.printing(.usage, "\(path) cannot be written: \(String(cString: strerror(opened.1)))")
        }
        return OutputPipe(owning: opened.0, named: path)
    }

    private func write(
        _ item: GetItem, to pipe: OutputPipe, _ settings: TransferSettings, _ reporter: TransferReporter
    ) async -> GetResult {
        item.job.checksum != nil
            ? await spool(item, to: pipe, settings, reporter) : await stream(item, to: pipe, settings, reporter)
    }

    /// Makes as many attempts as needed. Each uses one connection, because bytes are written in their order.
    private func stream(
        _ item: GetItem, to pipe: OutputPipe, _ settings: TransferSettings, _ reporter: TransferReporter
    ) async -> GetResult {
        var job = item.job
        (job.connections, job.path) = (1, nil)
        let context = settings.context(OutputStore(pipe))
        var (failed, hasReachedServer) = (0, false)
        var resume: ResumePoint?
        while true {
            var assignment = Assignment(
                job: job, token: Token.make(), key: item.key, clock: SharedClock(serverTime: UnixTime.milliseconds))
            (assignment.resume, assignment.isNew) = (resume, true)
            assignment.cookies = settings.cookies(for: item)
            let io = RunIO(Host(item: item, reporter: reporter))
            let attempt = Attempt()
            let bars = Task {
                await Self.show(settings, reporter) {
                    var view = TransferView(name: item.label)
                    (view.phase, view.progress) = (.running, attempt.progress)
                    return view
                }
            }
            let download = Download(assignment, io, context: context)
            let result = await attempt.runUntilCancelled(download, io)
            bars.cancel()
            await bars.value
            hasReachedServer = hasReachedServer || result.progress.transferred > 0
            switch result.outcome {
            case .completed(let file, _, _):
                var end = GetResult(end: .completed)
                (end.bytes, end.checksum) = (file.bytes, file.checksum)
                end.verified = Verification.label(file, job, nil, download.completeness, isUnchanged: false)
                return end
            case .failed(let error):
                let failure = error.inCommand(.download)
                resume = await result.remainder?.finalCheckpoint() ?? resume
                guard
                    let wait = settings.delay(
                        after: failure, result, hasReachedServer: hasReachedServer, of: job, failed: &failed)
                else { return GetResult(end: .failed(failure)) }
                if let tooLong = TransferSettings.refusal(of: wait, after: failure) {
                    return GetResult(end: .failed(tooLong))
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
        let reporter: TransferReporter

        var trace: (@Sendable (String) -> Void)? {
            guard reporter.isVerbose else { return nil }
            return { [reporter, item] in reporter.decision(item, $0) }
        }

        func report(_ event: ActivityEvent) {
            if case .warning(let text) = event { reporter.record("\(item.label): \(text)") }
        }
    }

    private static func show(
        _ settings: TransferSettings, _ reporter: TransferReporter, _ view: @Sendable () -> TransferView
    ) async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(200))
            settings.updateRate()
            let size = reporter.size
            reporter.draw(
                TransferBars.lines([view()], TransferBars.Totals(all: 1), width: size.width, height: size.height))
        }
    }

    /// Fetches the file into a temporary directory, and writes it once it is verified.
    private func spool(
        _ item: GetItem, to pipe: OutputPipe, _ settings: TransferSettings, _ reporter: TransferReporter
    ) async -> GetResult {
        let scratch: ScratchDirectory
        do { scratch = try ScratchDirectory() } catch { return GetResult(end: .stopped) }
        defer {
            settings.stores.forget(scratch.path)
            scratch.remove()
        }
        let spooled = item.moved(to: scratch.path, as: "file")
        let run = GetRun(spooled, settings, scratch.downloadLog, GetNames(), reporter)
        let bars = Task { await Self.show(settings, reporter) { run.view } }
        var result = await run.run()
        bars.cancel()
        await bars.value
        await settings.stores.runDeferredWork()
        guard case .completed = result.end else { return result }
        do throws(TransferError) { try await pipe.copy(scratch.path + "/file") } catch {
            guard case .failed(let failure) = error else { return GetResult(end: .stopped) }
            return GetResult(end: .failed(failure))
        }
        result.verified += ", before the first byte"
        return result
    }
}
