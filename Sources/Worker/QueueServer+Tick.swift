import HaulActivities
import HaulBus
import HaulContract
import HaulExecutors
import HaulMetrics
import HaulRedis
import Logging
import Synchronization

// The tick: it maintains the queue once a second, and reports the runs.
extension QueueServer {
    /// Serves the queue until the task is cancelled. Ticks once a second, more often if the lease is short
    /// (Lua/tick/losses.lua relies on that), and when a run has something to report.
    func serve(_ fields: @escaping @Sendable () -> [(String, String)]) async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.listen() }
            group.addTask { await self.leftovers.run() }
            group.addTask { await self.unlinker.run() }
            group.addTask { await self.rates.run(self.queue, as: self.claims, self.redisErrors) }
            group.addTask { await self.pacer.run { self.claims.identity } }
            if let replicaWait { group.addTask { await replicaWait.run() } }
            group.addTask { await self.ticks.run(every: min(.seconds(1), self.queue.policy.lease / 4)) }
            for await _ in ticks.wakeUps {
                if Task.isCancelled { break }
                // After a failed call Redis may know other claims than this worker, so that all runs are reported.
                let isFullTick = ticks.takeFullTick() || claims.mayBeOutOfSync
                let pending = isFullTick ? [] : table.runs.filter(\.needsTick)
                if isFullTick {
                    await tick(fields())
                } else if !pending.isEmpty {
                    await tick(fields(), .operations, of: pending)
                }
            }
            group.cancelAll()
        }
    }

    /// Applies the limits of rate of the queue and of hosts that hold now. Logs each limit that has no effect, or that
    /// this machine cannot evaluate, but only once.
    private func applyLimits(_ reply: TickReply) async {
        var ignored = reply.ignored.map { name in "\(name) \(QueueSetting(name: name)?.rule ?? "is not a setting")" }
        let own = reply.rate.flatMap(RateSchedule.init)
        if let text = reply.rate, own == nil {
            ignored.append("\(QueueSetting.rate.name) \(QueueSetting.rate.rule), not \(text.prefix(100))")
        }
        var hosts: [String: RateSchedule] = [:]
        if reply.hasHostLimits {
            guard let found = await hostRates() else { return }
            hosts = found.rates
            ignored += found.faults
        } else {
            state.withLock { $0.hostRates = nil }
        }
        rates.limit(queue: own, hosts: hosts, at: reply.time)
        for zone in Set(([own].compactMap(\.self) + hosts.values).compactMap(\.unknownZone)) {
            ignored.append("this machine does not know the time zone \(zone), so the lowest of the rates holds")
        }
        let new = state.withLock { state in
            defer { state.ignored = Set(ignored) }
            return ignored.filter { !state.ignored.contains($0) }
        }
        for text in new.prefix(20) {
            log.warning("a limit of the queue is not applied as it is set", metadata: ["reason": .string(text)])
        }
    }

    /// The limits of hosts and groups as they were lately. Each worker reads all of them, and there may be thousands: so
    /// that takes it at most a hundredth of its time, and once a second as long as they are few. nil if Redis failed.
    private func hostRates() async -> HostRates? {
        let known = state.withLock { $0.hostRatesAreDue > .now ? $0.hostRates : nil }
        if let known { return known }
        let begun = ContinuousClock.now
        guard let found = try? await queue.hostRates() else { return nil }
        state.withLock { state in
            state.hostRates = found
            // A few were read late because Redis was slow.
            let pause = min((ContinuousClock.now - begun) * 100, .milliseconds(10 * found.count), .seconds(30))
            state.hostRatesAreDue = .now + max(.milliseconds(800), pause)
        }
        return found
    }

    /// Records in Redis that a run begins. If Redis fails, the run begins nevertheless, but the loss of its worker will
    /// not be counted as a crash.
    func reportActive(_ run: Run) async {
        var report = RunReport()
        report.set(isActive: true, of: run)
        var tick = Tick(claims.identity, .runs, runs: [(run, report)])
        try? await queue.perform(&tick)
    }

    /// Records in Redis that a run is about to send what must not be sent twice. Returns false if another worker has
    /// the job, and nil, after a pause, if Redis failed.
    func reportSent(_ running: RunningJob) async -> Bool? {
        var report = RunReport()
        report.fields.append(("sent", running.run.token))
        var tick = Tick(claims.identity, .runs, runs: [(running.run, report)])
        let sent = ContinuousClock.now
        do throws(RedisError) {
            try await queue.perform(&tick)
        } catch {
            await redisErrors.pause(after: error, while: .settling)
            return nil
        }
        apply(tick.reply, of: running, sent: sent)
        return !tick.reply.fenced.contains(running.run.token)
    }

    /// Whether Redis has certainly seen this worker so lately that no other one takes its jobs, even if Redis counts it as
    /// disconnected: Lua/tick/disconnected.lua has 2.5 s.
    func isSeen(margin: Duration = .milliseconds(500), at now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { $0.seen.map { now + margin < $0 + .milliseconds(2500) } ?? false }
    }

    /// Reports one run now, which also extends its lease.
    func report(_ running: RunningJob) async { await tick([], .runs, of: [running]) }

    /// Ticks now, with all runs or only `some`. Returns false, after a pause, if Redis failed.
    @discardableResult
    func tick(_ fields: [(String, String)], _ scope: Tick.Scope = .queue, of some: [RunningJob]? = nil) async -> Bool {
        let runs = some ?? table.runs
        let sent = ContinuousClock.now
        if scope == .queue { metrics.recordTickStart() }
        let deadWorkers = scope == .queue ? state.withLock { exchange(&$0.deadWorkers, with: []) } : []
        // Only ticks of the whole queue report `received`: Redis adds its increase to the queue's total.
        let received = scope == .queue ? [("received", String(table.bytes.received))] : []
        let refused = scope == .queue ? table.refused : []
        let all = runs.map(\.run) + refused
        let report = { @Sendable (index: Int) in
            index < runs.count ? runs[index].takeProgressReport() : RunReport()
        }
        var tick = Tick(
            claims.identity, scope, runs: all, fields: claims.fieldsWithState(fields) + received,
            isHeld: claims.isFull, deadWorkers: deadWorkers, report: report)
        var failure: RedisError?
        do throws(RedisError) {
            do throws(RedisError) {
                try await claims.registerIfNeeded(fields)
            } catch {
                guard error.code == .reply else { throw error }
                // Another process has taken the name over, and with it the jobs. The runs here have to learn that.
                (failure, tick) = (error, Tick(claims.identity, .runs, runs: all, report: report))
            }
            try await queue.perform(&tick)
        } catch {
            failure = error
        }
        // A tick makes several calls. If a later one fails, the replies to the earlier ones are still applied.
        for running in runs.prefix(tick.reported) { apply(tick.reply, of: running, sent: sent) }
        for run in refused where tick.reply.fenced.contains(run.token) { table.fenceRefused(run) }
        unlinker.add(tick.reply.dropped)
        await push(tick.reply.owedSteps)
        if let failure {
            for (index, report) in tick.unsent where index < runs.count { runs[index].putBack(report) }
            for running in runs.dropFirst(tick.reported) { running.lease.recordUnanswered(sent: sent) }
            claims.markOutOfSync()
            await redisErrors.pause(after: failure, while: .ticking)
            return false
        }
        if scope == .queue {
            metrics.recordTickReply()
            metrics.ticks.record(since: sent)
        }
        if let refused = tick.reply.refused { logRefusal(refused) }
        redisErrors.recordSuccess(of: .ticking)
        if scope != .runs {
            state.withLock { $0.seen = max($0.seen ?? sent, sent) }
            claims.record(tick.reply.gate)
            await applyLimits(tick.reply)
            if let wait = tick.reply.pace { pacer.begin(after: wait) }
            await push(tick.reply.schedules)
        }
        if tick.reply.hasMoreWork { ticks.requestTick() }
        reportDeferredKinds(tick.reply.deferredKinds)
        await requestTick(for: tick.reply.silent)
        return true
    }

    /// Pushes what follows jobs that Redis has failed. If Redis does not get it, a later tick of some worker does it.
    private func push(_ owed: [OwedSteps]) async {
        guard !owed.isEmpty, (try? await queue.push(owed, as: claims.identity)) != nil else { return }
        if owed.count == TickReply.maxOwedSteps { ticks.requestTick() }
    }

    /// Pushes the jobs of schedules that are due. If Redis fails, the next tick finds them again.
    private func push(_ schedules: [DueSchedule]) async {
        guard !schedules.isEmpty, let done = try? await queue.push(schedules, as: claims.identity) else { return }
        if let wait = done.wait { pacer.begin(after: wait) }
        let new = state.withLock { state in
            defer { state.unplanned = Set(done.troubles) }
            return done.troubles.filter { !state.unplanned.contains($0) }
        }
        for text in new {
            log.warning("a schedule cannot be planned on this machine", metadata: ["reason": .string(text)])
        }
    }

    /// Handles the reply to a tick for a run that the tick has reported.
    private func apply(_ reply: TickReply, of running: RunningJob, sent: ContinuousClock.Instant) {
        let token = running.run.token
        running.confirmReport()
        if reply.fenced.contains(token) {
            running.lease.end()
            // A run that was settled before this tick is not fenced. The log names a fenced run once, however many
            // ticks pass before its end.
            if table.contains(running.run), running.attempt.stop(.fenced) {
                queueLog.fenced(running.claim, running.job)
            }
            return
        }
        running.lease.extend(sent: sent)
        switch reply.operations[token] {
        case .paused: running.attempt.stop(.paused)
        case .cancelled, .removed, .deleted: running.attempt.stop(.cancelled)
        case .running, nil: break
        }
    }

    /// Logs, once for each reason, that events are not published.
    private func logRefusal(_ reason: String) {
        guard state.withLock({ exchange(&$0.refused, with: reason) }) != reason else { return }
        log.warning("Redis refuses to publish events", metadata: ["reason": "\(reason)"])
    }

    /// Logs which kinds of jobs wait that this worker does not run. One line names the first few new ones.
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

    /// Checks whether silent workers on this machine have died, and requests a tick that requeues their jobs before
    /// their leases end.
    private func requestTick(for silent: [ColocatedWorker]) async {
        guard !silent.isEmpty else { return }
        let deadWorkers = await Self.proc.run {
            silent.filter { worker in
                // `process` has the server instance before the process (Lua/tick/colocated.lua).
                guard let space = worker.process.firstIndex(of: " ") else { return false }
                return HostProcess(worker.process[space...])?.isGone ?? false
            }
        }
        if deadWorkers.isEmpty { return }
        for worker in deadWorkers {
            log.warning(
                "a worker on this machine has died: its jobs run again", metadata: ["worker": "\(worker.worker)"])
        }
        state.withLock { $0.deadWorkers = deadWorkers }
        ticks.requestTick()
    }

    /// Listens on the control channel. A message has the id of a job with a new control operation; it may run here.
    private func listen() async {
        let control = queue.keys.control
        if await listen(to: [control, queue.keys.alive(claims.identity.instance)]) { return }
        // Roles of an earlier version may not subscribe to the second channel. So only the leases show that this process
        // has ended.
        _ = await listen(to: [control])
    }

    /// Returns true once the task is cancelled; false if the Redis user may not subscribe to one of several channels.
    private func listen(to channels: [String]) async -> Bool {
        let subscription = Subscription(
            queue.redis.url, name: "haul-\(claims.identity.name)-control", channels: channels)
        for await element in subscription {
            switch element {
            case .message(_, let payload):
                let id = String(decoding: payload, as: UTF8.self)
                if let running = table.runs.first(where: { $0.run.id == id }) {
                    running.markControlPending()
                    ticks.requestEarlyTick()
                }
            case .interrupted(let error):
                if error.code == .noPermission, channels.count > 1 { return false }
                redisErrors.record(error, while: .listening)
            case .subscribed: redisErrors.recordSuccess(of: .listening)
            }
        }
        return true
    }
}
