import HaulActivities
import HaulBus
import HaulContract
import HaulExecutors
import HaulMetrics
import HaulRedis
import Logging
import Synchronization

// The tick: it maintains the queue once a second, and reports runs that have news.
extension QueueServer {
    /// Serves the queue until the task is cancelled. Ticks once a second, more often if the lease is short
    /// (Lua/tick/losses.lua relies on that), and when a run has news.
    func serve(_ fields: @escaping @Sendable () -> [(String, String)]) async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.listen() }
            group.addTask { await self.leftovers.run() }
            group.addTask { await self.renewRateLeases() }
            group.addTask { await self.pacemaker.run(as: self.identity) }
            if let replicaWait { group.addTask { await replicaWait.run() } }
            group.addTask {
                let interval = min(.seconds(1), self.queue.policy.lease / 4)
                // Workers that were started together must not tick together.
                var pause = interval * Double.random(in: 0...1)
                while !Task.isCancelled {
                    try? await Task.sleep(for: pause)
                    self.requestTick()
                    pause = interval
                }
                self.nudge.finish()
            }
            for await _ in nudges {
                if Task.isCancelled { break }
                // After a doubt about the connection, the tick is of the whole queue and reports all runs.
                let isFullTick = state.withLock { state in
                    defer { state.ticks.isFullTickDue = false }
                    return state.ticks.isFullTickDue || state.ledger.isInDoubt
                }
                let news = isFullTick ? [] : running.filter(\.hasNews)
                if isFullTick {
                    await tick(fields())
                } else if !news.isEmpty {
                    await tick(fields(), .operations, of: news)
                }
            }
            group.cancelAll()
        }
    }

    /// Requests a tick of the whole queue at once.
    func requestTick() {
        state.withLock { $0.ticks.isFullTickDue = true }
        nudge.yield()
    }

    /// Requests a tick at once that reports only the runs with news.
    func hurry() { nudge.yield() }

    /// Debounces events: requests a tick once an event of a run has waited for about 100 ms. A short job reports all
    /// events with its settle; a longer one does not have to wait for the next second's tick.
    func hurrySoon() {
        let isFirst = state.withLock { state in
            defer { state.ticks.isHurrying = true }
            return !state.ticks.isHurrying
        }
        guard isFirst else { return }
        Task {
            try? await Task.sleep(for: .milliseconds(100))
            state.withLock { $0.ticks.isHurrying = false }
            guard let oldest = running.compactMap(\.newsSince).min() else { return }
            if oldest <= .now - .milliseconds(90) { hurry() } else { hurrySoon() }
        }
    }

    /// While there are rate limits: requests this worker's rate leases, and reports the rates that it obeys.
    private func renewRateLeases() async {
        while !Task.isCancelled {
            let sent = ContinuousClock.now
            let questions = rates.ask()
            if questions.isEmpty {
                try? await Task.sleep(for: SharedRate.interval)
                continue
            }
            do throws(RedisError) {
                let rateLeases = try await queue.leaseRates(identity, number: rates.number, questions)
                // If a rate lease has shrunk, report that at once, because other workers wait for the rest.
                if rates.take(rateLeases, of: questions, sent: sent, lease: queue.policy.lease) { continue }
                try? await Task.sleep(for: SharedRate.interval)
            } catch {
                await pause(after: error, while: .ticking)
            }
        }
    }

    /// Reads the rate limits of hosts, if there are any. Logs each limit without effect once.
    private func applyLimits(_ reply: TickReply) async {
        var ignored = reply.ignored.map { name in "\(name) \(QueueSetting(name: name)?.rule ?? "is not a setting")" }
        if reply.hasHostLimits {
            guard let found = try? await queue.hostRates() else { return }
            rates.limit(found.limited)
            ignored += found.faults
        } else {
            rates.limit([])
        }
        let new = state.withLock { state in
            defer { state.ignored = Set(ignored) }
            return ignored.filter { !state.ignored.contains($0) }
        }
        for text in new.prefix(20) {
            log.warning("a limit of the queue has no effect", metadata: ["reason": .string(text)])
        }
    }

    /// Records in Redis that a run has begun, before it has. If Redis fails, the run begins all the same: then the loss
    /// of its worker is not counted as a crash.
    func reportActive(_ run: Run) async {
        var report = RunReport()
        report.set(isActive: true, of: run)
        var tick = Tick(identity, .runs, runs: [(run, report)])
        try? await queue.perform(&tick)
    }

    /// Records in Redis that a run is about to send what must not be sent twice. False if another worker has the job.
    /// nil if Redis failed; then a pause has passed.
    func reportSent(_ running: RunningJob) async -> Bool? {
        var report = RunReport()
        report.fields.append(("sent", running.run.token))
        var tick = Tick(identity, .runs, runs: [(running.run, report)])
        let sent = ContinuousClock.now
        do throws(RedisError) {
            try await queue.perform(&tick)
        } catch {
            await pause(after: error, while: .settling)
            return nil
        }
        apply(tick.reply, of: running, sent: sent)
        return !tick.reply.fenced.contains(running.run.token)
    }

    /// Reports one run now. That extends its lease, too.
    func report(_ running: RunningJob) async { await tick([], .runs, of: [running]) }

    /// Ticks now, with all runs or only `some`. False if Redis failed; then a pause has passed.
    @discardableResult
    func tick(_ fields: [(String, String)], _ extent: Tick.Extent = .queue, of some: [RunningJob]? = nil) async -> Bool
    {
        let runs = some ?? running
        let sent = ContinuousClock.now
        if extent == .queue { metrics.recordTickStart() }
        let reports = runs.map(report)
        let (isHeld, gone) = state.withLock { state in
            defer { if extent == .queue { state.gone = [] } }
            return (state.ledger.gate == .full, extent == .queue ? state.gone : [])
        }
        // `received` is only for ticks of the whole queue, which add what is new of it to the queue's total.
        let received = extent == .queue ? [("received", String(bytes.received))] : []
        var tick = Tick(
            identity, extent, runs: Array(zip(runs.map(\.run), reports)), fields: record(fields) + received,
            isHeld: isHeld, gone: gone)
        var trouble: RedisError?
        do throws(RedisError) {
            if state.withLock({ $0.ledger.needsRegistration }) { try await register(fields) }
            try await queue.perform(&tick)
        } catch {
            trouble = error
        }
        // A tick is several calls. The replies of those that worked count, even if a later one failed.
        for running in runs.prefix(tick.reported) { apply(tick.reply, of: running, sent: sent) }
        await leftovers.unlink(tick.reply.dropped)
        await queue.reportUnlinked(tick.reply.dropped)
        if let trouble {
            for (running, report) in zip(runs, reports).dropFirst(tick.reported) { running.putBack(report) }
            state.withLock { $0.ledger.doubt() }
            await pause(after: trouble, while: .ticking)
            return false
        }
        if extent == .queue {
            metrics.recordTickReply()
            metrics.ticks.record(since: sent)
        }
        recordSuccess(of: .ticking)
        if extent != .runs {
            record(tick.reply.gate)
            rates.queue.record(isLimited: tick.reply.hasRate)
            await applyLimits(tick.reply)
            if let wait = tick.reply.pace { pacemaker.begin(after: wait) }
        }
        if tick.reply.hasMoreWork { requestTick() }
        reportDeferredKinds(tick.reply.deferredKinds)
        await requestTick(for: tick.reply.silent)
        return true
    }

    /// The worker's fields, with its state in this queue. Without fields a call leaves the worker's record as it is.
    private func record(_ fields: [(String, String)]) -> [(String, String)] {
        if fields.isEmpty { return [] }
        let word = state.withLock { state in
            state.deadline != nil ? "ending" : state.ledger.gate == .quiet ? "quiet" : "working"
        }
        return fields + [("state", word)]
    }

    /// What a run has to report now.
    private func report(of running: RunningJob) -> RunReport {
        var report = running.takeReport()
        guard let activity = state.withLock({ $0.ledger.runs[running.run.token]?.activity }) else { return report }
        ProgressReport.add(activity.progress(), to: &report, of: running)
        ProgressReport.add(wait: activity.isWaitingForHost, to: &report, of: running)
        let isActive = activity.isActive
        if running.record(isActive: isActive) { report.set(isActive: isActive, of: running.run) }
        return report
    }

    /// Handles the reply to a tick for a run that the tick has reported.
    private func apply(_ reply: TickReply, of running: RunningJob, sent: ContinuousClock.Instant) {
        let token = running.run.token
        if reply.fenced.contains(token) {
            // A run that was settled before this tick is not fenced. The log names a fenced run once, however many
            // ticks pass before its end.
            if state.withLock({ $0.ledger.runs[token] }) != nil, running.stop(.fenced) {
                queueLog.fenced(running.claim, running.job)
            }
            return
        }
        running.lease.extend(sent: sent)
        switch reply.operations[token] {
        case .paused: running.stop(.paused)
        case .cancelled, .removed, .deleted: running.stop(.cancelled)
        case .running, nil: break
        }
    }

    /// Logs which kinds of jobs wait that this worker does not do. One line names the first few new ones.
    private func reportDeferredKinds(_ kinds: [String]) {
        let new = state.withLock { state in
            defer { state.deferredKinds = Set(kinds) }
            return kinds.filter { !state.deferredKinds.contains($0) }
        }
        guard !new.isEmpty else { return }
        let names = new.sorted().prefix(5).joined(separator: " ") + (new.count > 5 ? " …" : "")
        log.warning(
            "jobs wait for a worker that runs their kind, which this one does not",
            metadata: ["kind": "\(names)", "kinds": "\(kinds.count)"])
    }

    /// Checks whether silent workers on this machine have ended. Then their jobs need not wait for the end of a lease.
    private func requestTick(for silent: [ColocatedWorker]) async {
        guard !silent.isEmpty else { return }
        let gone = await Self.proc.run {
            silent.filter { worker in
                // The process is behind the instance: Lua/tick/colocated.lua.
                guard let space = worker.process.firstIndex(of: " ") else { return false }
                return HostProcess(worker.process[space...])?.isGone ?? false
            }
        }
        if gone.isEmpty { return }
        for worker in gone {
            log.warning(
                "a worker on this machine has died: its jobs run again", metadata: ["worker": "\(worker.worker)"])
        }
        state.withLock { $0.gone = gone }
        requestTick()
    }

    /// Makes the first registration. Tries again while the error is transient, except that a server that has never been
    /// reached (`wasReached`) is an error at once, since its URL may be wrong.
    func enroll(_ fields: [(String, String)], wasReached: Bool) async throws(RedisError) {
        var wasReached = wasReached
        while true {
            do throws(RedisError) {
                try await queue.redis.connect()
                wasReached = true
                try await register(fields)
                return recordSuccess(of: .registering)
            } catch {
                guard error.isTransient, wasReached || error.code != .unreachable, !Task.isCancelled else {
                    throw error
                }
                wasReached = true
                await pause(after: error, while: .registering)
            }
        }
    }

    /// Registers this worker. Waits some seconds for an earlier process of the same name to be gone.
    ///
    /// - Throws: `.reply` if another live worker has the name; what Redis answers otherwise.
    func register(_ fields: [(String, String)]) async throws(RedisError) {
        let known = state.withLock { $0.ledger.beginRegistration() }
        var isKnown = false
        defer { state.withLock { $0.ledger.endRegistration(succeeded: isKnown) } }
        var tries = 0
        while !(try await queue.register(identity, fields: record(fields), known: known)) {
            tries += 1
            guard tries < 40 else {
                throw RedisError(
                    .reply, "another live worker has the name \(identity.name): give this one another with --name")
            }
            try? await Task.sleep(for: .milliseconds(100))
        }
        isKnown = true
    }

    /// Listens on the control channel. A message says that a request waits for a job, which may be one that runs here.
    private func listen() async {
        let subscription = Subscription(
            queue.redis.url, name: "haul-\(identity.name)-control", channels: [queue.keys.control])
        for await element in subscription {
            switch element {
            case .message(_, let payload):
                let id = String(decoding: payload, as: UTF8.self)
                if let running = running.first(where: { $0.run.id == id }) {
                    running.markControlPending()
                    hurry()
                }
            case .interrupted(let error): record(error, while: .listening)
            case .subscribed: recordSuccess(of: .listening)
            }
        }
    }
}
