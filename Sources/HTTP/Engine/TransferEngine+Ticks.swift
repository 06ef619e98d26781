import CHaulCurl
import HaulContract
import HaulExecutors

// The work of the timers.
extension TransferEngine {
    struct Timers {
        var tick: EventLoop.Timer?
        /// Set while transfers wait for a rate limit.
        var limits: EventLoop.Timer?
        /// Set while transfers are connecting.
        var connecting: EventLoop.Timer?

        var all: [EventLoop.Timer] { [tick, limits, connecting].compactMap(\.self) }
    }

    private static let tickInterval = Duration.milliseconds(250)
    private static let limitInterval = Duration.milliseconds(10)
    private static let wakingInterval = Duration.milliseconds(100)

    func scheduleLimits() {
        guard timers.limits == nil, !limited.isEmpty else { return }
        timers.limits = loop.schedule(at: .now + Self.limitInterval) { [weak self] in
            self?.assumeIsolated { $0.runLimits() }
        }
    }

    /// Resumes the transfers that wait for a rate limit, in order. Each gets an equal part of the credit.
    func runLimits() {
        timers.limits = nil
        for id in limited.queue {
            guard let task = tasks[id] else { continue }
            let now = monotonicNanoseconds()
            guard task.request.limits.allSatisfy({ $0.isOpen(now) }) else {
                limited.stay(task)
                continue
            }
            let share = max(1, task.request.limits.map { $0.fairShare(now) }.min() ?? 1)
            if task.outgoing?.pause == .limits { resumeSending(task, granting: share) }
            if task.state.pause == .limits { unpause(task, granting: share) }
        }
        scheduleLimits()
    }

    func scheduleTick() {
        guard timers.tick == nil, !tasks.isEmpty || multi.connections.needsMaintenance else { return }
        timers.tick = loop.schedule(at: .now + Self.tickInterval) { [weak self] in self?.assumeIsolated { $0.runTick() }
        }
    }

    func runTick() {
        timers.tick = nil
        let now = monotonicNanoseconds()
        let patience = configuration.patience.nanoseconds
        var isStarving = false
        for task in tasks.values where !task.isRetired {
            if task.state.isOverdue(now) {
                close(task, task.state.result(.closed(isTruncated: false)))
            } else if task.hasNoResponse() {
                abort(task, TransferError(.incomplete, "the server closed the connection without a response"))
            } else if task.isMostlyFraming() {
                abort(
                    task,
                    TransferError(
                        .badResponse, "the server sends hardly anything of the body between chunk extensions or frames")
                )
            } else if task.isStalled(now) {
                let seconds = task.request.stallTimeout.components.seconds
                abort(
                    task,
                    TransferError(
                        .stalled, "the server \(task.isSending ? "accepted" : "sent") nothing for \(seconds) s"))
            } else if task.state.pause == .sink {
                isStarving = true
            } else {
                task.updatePace(now, patience: patience)
                task.limitReceiveBuffer(now)
                task.pauseForFraming(now)
            }
        }
        scheduleLimits()
        // Slow transfers may hold all blocks half full.
        if isStarving { for task in tasks.values { task.caller.sink?.handOver() } }
        maintainConnections(now)
        scheduleTick()
    }

    /// Ends idle connections that have been kept for long or that block a waiting transfer.
    func maintainConnections(_ now: UInt64) {
        guard multi.connections.needsMaintenance else { return }
        let active = tasks.values.filter { !$0.isRetired }
        multi.connections.record(
            used: Set(active.flatMap(\.connection.sockets)),
            ports: Set(active.compactMap { $0.connection.peer?.localPort }), at: now)
        multi.connections.endIdle(
            for: Set(active.filter { $0.isWithoutResponse(now) }.flatMap(\.connection.sockets)), at: now)
    }

    func scheduleWaking() {
        guard timers.connecting == nil else { return }
        timers.connecting = loop.schedule(at: .now + Self.wakingInterval) { [weak self] in
            self?.assumeIsolated { $0.wakeConnecting() }
        }
    }

    /// See `CurlMulti.wake`.
    private func wakeConnecting() {
        timers.connecting = nil
        let connecting = tasks.values.filter { !$0.connection.isConnected && !$0.isRetired }
        guard !connecting.isEmpty else { return }
        for task in connecting where !task.connection.sockets.isEmpty { task.easy.map(multi.wake) }
        scheduleWaking()
    }
}
