import HaulActivities
import HaulContract
import Synchronization

/// Runs all downloads of one `haul get`, at most `parallel` at a time.
final class GetRunner: Sendable {
    private struct State {
        /// The downloads that run, in the order in which they began.
        var runs: [(index: Int, run: GetRun)] = []
        var results: [Int: GetResult] = [:]
        var totals = TransferBars.Totals()
        /// The queues that have not been started yet.
        var queues: ArraySlice<[Int]> = []
    }

    private let items: [GetItem]
    private let settings: TransferSettings
    private let downloadLog: DownloadLog
    private let reporter: TransferReporter
    private let parallel: Int
    private let writeOut: WriteOut?
    private let hooks: GetHooks?
    private let names = GetNames()
    private let state = Mutex(State())

    init(
        _ items: [GetItem], _ settings: TransferSettings, _ downloadLog: DownloadLog, _ reporter: TransferReporter,
        parallel: Int,
        writeOut: WriteOut? = nil, hooks: GetHooks? = nil
    ) {
        (self.items, self.settings, self.downloadLog) = (items, settings, downloadLog)
        (self.reporter, self.parallel, self.writeOut, self.hooks) = (reporter, parallel, writeOut, hooks)
        state.withLock { $0.totals.all = items.count }
    }

    /// Returns when all downloads have ended. Cancelling the task stops them, and keeps what can be continued.
    func run() async -> [(GetItem, GetResult)] {
        let ticks = Task { await tick() }
        let queues = queues()
        state.withLock { $0.queues = queues[...] }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<min(parallel, queues.count) {
                // On libcurl's thread: most steps cost less than waking another thread for them.
                group.addTask(executorPreference: settings.executor) {
                    while let queue = self.state.withLock({ $0.queues.popFirst() }) {
                        for index in queue where !Task.isCancelled { await self.work(index, self.items[index]) }
                    }
                }
            }
        }
        ticks.cancel()
        await ticks.value
        await settings.stores.runDeferredWork()
        let results = state.withLock { $0.results }
        for (index, item) in items.enumerated() where results[index] == nil { await recordNotStarted(item) }
        return items.enumerated().map { ($1, results[$0] ?? GetResult(end: .stopped)) }
    }

    /// The downloads by their indices. Those that share a name run one after another, so that their numbers follow the
    /// order of the list.
    private func queues() -> [[Int]] {
        var queues: [[Int]] = []
        var queueIndices: [String: Int] = [:]
        for (index, item) in items.enumerated() {
            let name = item.sharesName ? item.likelyPath.map { "\(item.root)/\($0)" } : nil
            if let name, let queue = queueIndices[name] {
                queues[queue].append(index)
            } else {
                if let name { queueIndices[name] = queues.count }
                queues.append([index])
            }
        }
        return queues
    }

    private func work(_ index: Int, _ item: GetItem) async {
        let run = GetRun(item, settings, downloadLog, names, reporter, hasHook: hooks != nil)
        state.withLock { $0.runs.append((index, run)) }
        let record = settings.record(isNeeded: writeOut != nil, trace: reporter.trace(of: item.label))
        let (ended, late) = await TimeLimit.run(
            settings.maxTime, "the download", advice: "; the same command continues"
        ) { await TransferRecord.observe(record) { await run.run() } }
        var result = ended
        if let late, case .stopped = result.end {
            result = GetResult(end: .failed(late), received: run.view.progress.received)
        }
        if result.isFailed { names.release(item) }
        state.withLock { state in
            state.runs.removeAll { $0.index == index }
            state.results[index] = result
            if result.isFailed { state.totals.failed += 1 } else { state.totals.done += 1 }
            state.totals.doneBytes += result.bytes ?? 0
        }
        if case .metalink = result.end {
            reporter.record("\(item.label) is a Metalink: its files follow")
        } else {
            reporter.finished(run, result)
        }
        await hooks?.run(result, TransferReporter.endEvent(item, result), reporter)
        if let writeOut, let record { reporter.write(writeOut.pieces(WriteOut.Values(item, result, record))) }
    }

    /// Records a download that had not begun when the command was interrupted, so that `--continue` finds it.
    private func recordNotStarted(_ item: GetItem) async {
        guard await downloadLog.read(item.key) == nil else { return }
        await downloadLog.write(GetRecord(item, run: GetRecord.notStarted, completed: nil), isDurable: false)
    }

    // MARK: While they run

    /// Begins the checkpoints that are due, and shows the progress.
    private func tick() async {
        var (drawn, reported) = (ContinuousClock.now, ContinuousClock.now)
        while !Task.isCancelled {
            let (runs, totals) = state.withLock { ($0.runs.map(\.run), $0.totals) }
            try? await Task.sleep(for: .milliseconds(min(1000, max(100, 5 * runs.count))))
            var turns = CheckpointBudget(runs: runs.count)
            for run in runs { turns.record(run.checkpointIfDue(interval: turns.interval)) }
            let now = ContinuousClock.now
            if reporter.showsProgress, now - drawn >= .milliseconds(180) {
                drawn = now
                let (width, height) = reporter.size
                reporter.draw(TransferBars.lines(runs.map(\.view), totals, width: width, height: height))
            }
            guard now - reported >= .seconds(1) else { continue }
            reported = now
            settings.updateRate()
            await settings.stores.runDeferredWork()
            // Under the lock, so that no line about a download follows the line about its end.
            state.withLock { state in
                for (_, run) in state.runs { reporter.progress(run, run.view.progress) }
            }
        }
    }
}

extension WriteOut.Values {
    init(_ item: GetItem, _ result: GetResult, _ record: TransferRecord) {
        self.init(url: item.urls.first ?? "", facts: record.facts)
        (downloaded, seconds, method) = (result.transferred, result.seconds, item.job.method)
        file = result.file.map { (item.root == "/" ? "" : item.root) + "/" + $0 } ?? ""
        isSuccess = !result.isFailed
        if case .failed(let failure) = result.end { message = "\(failure)" }
    }
}
