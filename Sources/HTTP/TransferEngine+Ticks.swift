import CHaulCurl
import HaulContract
import HaulExecutors

// What is looked after by the clock.
extension TransferEngine {
    private static let tickInterval = Duration.milliseconds(250)
    private static let limitInterval = Duration.milliseconds(10)
    private static let wakingInterval = Duration.milliseconds(100)
    /// How long a response may take to end after everything that was wanted has come: nanoseconds.
    private static let endLimit: UInt64 = 1_000_000_000

    func scheduleLimits() {
        guard limitTick == nil, !limited.isEmpty else { return }
        limitTick = loop.schedule(at: .now + Self.limitInterval) { [weak self] in
            self?.assumeIsolated { $0.runLimits() }
        }
    }

    /// Lets those who wait for a limit go on in turn, each with an equal share of what has come in.
    func runLimits() {
        limitTick = nil
        for id in limited.queue {
            guard let task = tasks[id] else { continue }
            let now = monotonicNanoseconds()
            guard task.request.limits.allSatisfy({ $0.isOpen(now) }) else { continue }
            unpause(task, granting: max(1, task.request.limits.map { $0.share(now) }.min() ?? 1))
        }
        scheduleLimits()
    }

    func scheduleTick() {
        guard tick == nil, !tasks.isEmpty || multi.connections.isOfInterest else { return }
        tick = loop.schedule(at: .now + Self.tickInterval) { [weak self] in self?.assumeIsolated { $0.runTick() } }
    }

    func runTick() {
        tick = nil
        let now = monotonicNanoseconds()
        let patience = configuration.patience.nanoseconds
        var isStarving = false
        for task in tasks.values where !task.isRetired {
            if let satisfied = task.satisfied, now > satisfied + Self.endLimit {
                // Everything that was wanted is here; only the end of the response is missing.
                close(task, task.bodyResult(CURLE_OK))
            } else if task.isStalled(now) {
                let seconds = task.request.stallTimeout.components.seconds
                abort(task, TransferError(.stalled, "the server sent nothing for \(seconds) s"))
            } else if task.pause == .sink {
                isStarving = true
            } else {
                task.lookAfterPace(now, patience: patience)
            }
        }
        // Slow transfers may hold all memory half full.
        if isStarving { for task in tasks.values { task.bodySink?.handOver() } }
        lookAfterConnections(now)
        scheduleTick()
    }

    /// Ends idle connections that are in somebody's way.
    func lookAfterConnections(_ now: UInt64) {
        guard multi.connections.isOfInterest else { return }
        let active = tasks.values.filter { !$0.isRetired }
        multi.connections.note(
            used: Set(active.flatMap(\.sockets)), ports: Set(active.map(\.localPort)), at: now)
        multi.connections.endIdle(for: Set(active.filter { $0.isUnanswered(now) }.flatMap(\.sockets)), at: now)
    }

    func scheduleWaking() {
        guard wakingTick == nil else { return }
        wakingTick = loop.schedule(at: .now + Self.wakingInterval) { [weak self] in
            self?.assumeIsolated { $0.wakeConnecting() }
        }
    }

    /// See `CurlMulti.wake`.
    private func wakeConnecting() {
        wakingTick = nil
        let connecting = tasks.values.filter { !$0.isConnected && !$0.isRetired }
        guard !connecting.isEmpty else { return }
        for task in connecting where !task.sockets.isEmpty { multi.wake(task.easy) }
        scheduleWaking()
    }
}
