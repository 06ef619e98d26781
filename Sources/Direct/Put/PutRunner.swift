import HaulContract
import Synchronization

/// Runs all uploads of one `haul put`, at most `parallel` at a time, and shows their progress.
final class PutRunner: Sendable {
    private struct State {
        var running: [PutRun] = []
        var ends: [Int: PutRun.End] = [:]
        var totals = TransferBars.Totals()
    }

    private let runs: [PutRun]
    private let settings: TransferSettings
    private let reporter: TransferReporter
    private let parallel: Int
    private let state = Mutex(State())

    init(_ runs: [PutRun], _ settings: TransferSettings, _ reporter: TransferReporter, parallel: Int) {
        (self.runs, self.settings, self.reporter, self.parallel) = (runs, settings, reporter, parallel)
        state.withLock { $0.totals.all = runs.count }
    }

    /// Returns when all uploads have ended. The results are in the order of `runs`.
    ///
    /// - Parameter ended: Called for each upload as it ends.
    func run(_ ended: @escaping @Sendable (PutRun, PutRun.End) -> Void) async -> [PutRun.End] {
        let ticks = Task { await tick() }
        await withTaskGroup(of: Void.self) { group in
            for (index, run) in runs.enumerated() {
                if index >= parallel { await group.next() }
                if Task.isCancelled { break }
                group.addTask {
                    self.state.withLock { $0.running.append(run) }
                    let end = await run.runWithTimeLimit()
                    self.record(end, of: run, index)
                    ended(run, end)
                }
            }
            await group.waitForAll()
        }
        ticks.cancel()
        await ticks.value
        reporter.draw([])
        let ends = state.withLock { $0.ends }
        return runs.indices.map { ends[$0] ?? .stopped }
    }

    private func record(_ end: PutRun.End, of run: PutRun, _ index: Int) {
        state.withLock { state in
            state.running.removeAll { $0 === run }
            state.ends[index] = end
            if case .responded(let response, _) = end {
                state.totals.done += 1
                state.totals.doneBytes += response.uploaded ?? 0
            } else {
                state.totals.failed += 1
            }
        }
    }

    private func tick() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(200))
            settings.updateRate()
            guard reporter.showsProgress, !Task.isCancelled else { continue }
            let (running, totals) = state.withLock { ($0.running, $0.totals) }
            let (width, height) = reporter.size
            reporter.draw(TransferBars.lines(running.map(\.view), totals, width: width, height: height))
        }
    }
}
