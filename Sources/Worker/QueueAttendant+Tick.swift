import HaulActivities
import HaulBus
import HaulContract
import HaulExecutors
import HaulMetrics
import HaulRedis
import Logging
import Synchronization

// The look after the queue: once a second, and when there is news.
extension QueueAttendant {
    /// Looks after the queue once a second, more often if the lease is short (Lua/watch.lua counts on it), and when there is
    /// news, until the task is cancelled.
    func serve(_ fields: @escaping @Sendable () -> [(String, String)]) async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.listen() }
            group.addTask { await self.leftovers.run() }
            group.addTask { await self.share() }
            group.addTask { await self.pacemaker.run(as: self.identity) }
            if let replicaWait { group.addTask { await replicaWait.run() } }
            group.addTask {
                let interval = min(.seconds(1), self.queue.policy.lease / 4)
                // Workers that were started together do not tick together.
                var pause = interval * Double.random(in: 0...1)
                while !Task.isCancelled {
                    try? await Task.sleep(for: pause)
                    self.look()
                    pause = interval
                }
                self.nudge.finish()
            }
            for await _ in nudges {
                if Task.isCancelled { break }
                // After a doubt about the connection all of them are told of.
                let isLook = state.withLock { state in
                    defer { state.ticks.isLookDue = false }
                    return state.ticks.isLookDue || state.ledger.isInDoubt
                }
                let news = isLook ? [] : running.filter(\.hasNews)
                if isLook { await tick(fields()) } else if !news.isEmpty { await tick(fields(), .requests, of: news) }
            }
            group.cancelAll()
        }
    }

    /// Asks for a look after the queue at once.
    func look() {
        state.withLock { $0.ticks.isLookDue = true }
        nudge.yield()
    }

    /// Asks for a tick at once: of the runs that have news, and of no others, however many there are.
    func hurry() { nudge.yield() }

    /// Asks for a tick in a moment, if a run has had something to tell for as long then: a short job tells it all at its end, a
    /// longer one is not silent until the next second.
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

    /// While there are limits of rate: asks for this worker's shares, and says what it keeps to.
    private func share() async {
        while !Task.isCancelled {
            let sent = ContinuousClock.now
            let questions = rates.ask()
            if questions.isEmpty {
                try? await Task.sleep(for: SharedRate.interval)
                continue
            }
            do throws(RedisError) {
                let shares = try await queue.shares(identity, number: rates.number, questions)
                // Others wait for what is given back until it is said to be.
                if rates.take(shares, of: questions, sent: sent, lease: queue.policy.lease) { continue }
                try? await Task.sleep(for: SharedRate.interval)
            } catch {
                await pause(after: error, while: .looking)
            }
        }
    }

    /// Reads the limits of hosts, if there are any, and tells of values that have no effect, once.
    private func noteLimits(_ reply: TickReply) async {
        var ignored = reply.ignored.map { name in "\(name) \(QueueSetting(name: name)?.rule ?? "is no setting")" }
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

    /// Tells that a run is at work before it is, as far as Redis can be told. Nothing is wrong if it cannot: the loss of its
    /// worker does not count then.
    func tellBegun(_ run: Run) async {
        var report = RunReport()
        report.set(isAtWork: true, of: run)
        var tick = Tick(identity, .runs, runs: [(run, report)])
        try? await queue.perform(&tick)
    }

    /// Tells that a run is about to send what must not be sent twice. False: the run is not ours any more. nil: Redis could not be
    /// asked, and a pause has passed.
    func tellSent(_ running: RunningJob) async -> Bool? {
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
        hear(tick.reply, of: running, sent: sent)
        return !tick.reply.fenced.contains(running.run.token)
    }

    /// Tells of one run now.
    func tell(_ running: RunningJob) async { await tick([], .runs, of: [running]) }

    /// One tick now, with all runs or some; false if Redis could not be asked.
    @discardableResult
    func tick(_ fields: [(String, String)], _ extent: Tick.Extent = .queue, of some: [RunningJob]? = nil) async -> Bool
    {
        let runs = some ?? running
        let sent = ContinuousClock.now
        if extent == .queue { figures.noteLook() }
        let reports = runs.map(report)
        let (isHeld, gone) = state.withLock { state in
            defer { if extent == .queue { state.gone = [] } }
            return (state.ledger.gate == .full, extent == .queue ? state.gone : [])
        }
        // A registration does not count what it writes; a look does.
        let received = extent == .queue ? [("received", String(moved))] : []
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
        // What some of the calls brought counts, whatever became of the others.
        for running in runs.prefix(tick.reported) { hear(tick.reply, of: running, sent: sent) }
        await leftovers.unlink(tick.reply.dropped)
        await queue.tellUnlinked(tick.reply.dropped)
        if let trouble {
            for (running, report) in zip(runs, reports).dropFirst(tick.reported) { running.putBack(report) }
            state.withLock { $0.ledger.doubt() }
            await pause(after: trouble, while: .looking)
            return false
        }
        if extent == .queue {
            figures.noteAnswer()
            figures.ticks.record(since: sent)
        }
        noteSuccess(of: .looking)
        if extent != .runs {
            note(tick.reply.gate)
            rates.queue.note(isLimited: tick.reply.hasRate)
            await noteLimits(tick.reply)
            if let wait = tick.reply.pace { pacemaker.begin(after: wait) }
        }
        if tick.reply.isMoreToDo { look() }
        tellAside(tick.reply.aside)
        await look(for: tick.reply.silent)
        return true
    }

    /// The worker's fields with its state in this queue. A call without fields says nothing of the worker.
    private func record(_ fields: [(String, String)]) -> [(String, String)] {
        if fields.isEmpty { return [] }
        let word = state.withLock { state in
            state.deadline != nil ? "ending" : state.ledger.gate == .quiet ? "quiet" : "working"
        }
        return fields + [("state", word)]
    }

    /// What a run has to tell now.
    private func report(of running: RunningJob) -> RunReport {
        var report = running.takeReport()
        guard let activity = state.withLock({ $0.ledger.runs[running.run.token]?.activity }) else { return report }
        Progress.add(activity.progress(), to: &report, of: running)
        Progress.add(wait: activity.isWaitingForHost, to: &report, of: running)
        let isAtWork = activity.isAtWork
        if running.note(isAtWork: isAtWork) { report.set(isAtWork: isAtWork, of: running.run) }
        return report
    }

    /// What a tick brought for a run of which Redis was told.
    private func hear(_ reply: TickReply, of running: RunningJob, sent: ContinuousClock.Instant) {
        let token = running.run.token
        if reply.fenced.contains(token) {
            // Not of one that was settled before this tick came to it. It is said once, however many ticks pass before the run
            // has ended.
            if state.withLock({ $0.ledger.runs[token] }) != nil, running.stop(.fenced) {
                journal.fenced(running.claim, running.job)
            }
            return
        }
        running.lease.extend(sent: sent)
        switch reply.requests[token] {
        case .paused: running.stop(.paused)
        case .cancelled, .removed, .deleted: running.stop(.cancelled)
        case .running, nil: break
        }
    }

    /// Jobs of a kind that this worker does not do are left to others, and it says so once.
    private func tellAside(_ kinds: [String]) {
        let new = state.withLock { state in
            defer { state.aside = Set(kinds) }
            return kinds.filter { !state.aside.contains($0) }
        }
        for kind in new {
            log.warning("jobs wait for a worker that does their kind; this one does not", metadata: ["kind": "\(kind)"])
        }
    }

    /// Looks whether workers on this machine that have fallen silent are gone; their jobs need not wait for a lease then.
    private func look(for silent: [Neighbour]) async {
        guard !silent.isEmpty else { return }
        let gone = await Self.proc.run {
            silent.filter { neighbour in
                // Behind the instance: Lua/neighbours.lua.
                guard let space = neighbour.process.firstIndex(of: " ") else { return false }
                return HostProcess(neighbour.process[space...])?.isGone ?? false
            }
        }
        if gone.isEmpty { return }
        for neighbour in gone {
            log.warning(
                "a worker on this machine is gone: its jobs run again", metadata: ["worker": "\(neighbour.worker)"])
        }
        state.withLock { $0.gone = gone }
        look()
    }

    /// The first registration, tried again for as long as what is in its way passes by itself: a Redis that answers, be it to
    /// refuse, will come round; where nobody ever did, the URL is wrong.
    func enroll(_ fields: [(String, String)], wasReached: Bool) async throws(RedisError) {
        var wasReached = wasReached
        while true {
            do throws(RedisError) {
                try await queue.redis.connect()
                wasReached = true
                try await register(fields)
                return noteSuccess(of: .registering)
            } catch {
                guard error.isTransient, wasReached || error.code != .unreachable, !Task.isCancelled else {
                    throw error
                }
                wasReached = true
                await pause(after: error, while: .registering)
            }
        }
    }

    /// Makes this worker known, waiting for an earlier process of the same name to be gone.
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

    /// A message on the control channel is a hint that a request waits for one of our runs.
    private func listen() async {
        let subscription = Subscription(
            queue.redis.url, name: "haul-\(identity.name)-control", channels: [queue.keys.control])
        for await element in subscription {
            switch element {
            case .message(_, let payload):
                let id = String(decoding: payload, as: UTF8.self)
                if let running = running.first(where: { $0.run.id == id }) {
                    running.noteRequest()
                    hurry()
                }
            case .interrupted(let error): note(error, while: .listening)
            case .subscribed: noteSuccess(of: .listening)
            }
        }
    }
}
