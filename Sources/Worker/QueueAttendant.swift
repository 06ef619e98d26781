import Bus
import Contract
import Download
import Executors
import Logging
import Redis
import Synchronization

/// One queue as this worker serves it: waiting for jobs, the tick, and the runs that are under way.
final class QueueAttendant: Sendable {
    private struct State {
        var running: [String: RunningJob] = [:]
        var downloads: [String: Download] = [:]
        var isOpen = true
        var isRegistered = false
        /// A registration puts back every claim that it does not know: none may be made while one is under way.
        var registrations = 0
        /// After any doubt about the connection: what was claimed then may be unknown to us, and we to Redis.
        var isInDoubt = false
        var mayClaim: Bool { isOpen && isRegistered && !isInDoubt && registrations == 0 }
        /// Tokens of claims that are ours although no run of them is entered: asked for, or being settled.
        var pending: Set<String> = []
        var isHurrying = false
        var isCheckpointing = false
        /// When the grace time is over, once the worker is told to end.
        var deadline: ContinuousClock.Instant?
        /// The last trouble that was logged, and when: the same one is not said again within ten seconds.
        var trouble: (reason: String, at: ContinuousClock.Instant)?
    }

    /// A wait lasts at most this long; then the claim behind it looks for what others left in `held`.
    static let block: Duration = .seconds(5)

    let index: Int
    let queue: Queue
    private let waiter: Redis
    private let identity: WorkerIdentity
    private let log: Logger
    let leftovers: Leftovers
    private let state = Mutex(State())
    private let (nudges, nudge) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(
        index: Int, name: QueueName, identity: WorkerIdentity, configuration: WorkerConfiguration, store: Store,
        blocking: BlockingPool, log: Logger
    ) {
        self.index = index
        self.identity = identity
        queue = Queue(
            name, redis: Redis(configuration.redis, name: "haul-\(identity.name)", replies: .owed),
            policy: configuration.policy)
        leftovers = Leftovers(queue, identity, store, blocking)
        waiter = Redis(configuration.redis, name: "haul-\(identity.name)-wait", replies: .owed)
        var log = log
        log[metadataKey: "queue"] = "\(name)"
        self.log = log
    }

    // MARK: Claims

    /// Waits for a job and claims it. nil: there was none, or Redis could not be asked (a pause has passed then).
    func wait() async -> Claim? {
        guard state.withLock({ $0.mayClaim }) else {
            try? await Task.sleep(for: .milliseconds(100))
            return nil
        }
        let sent = ContinuousClock.now
        return await claiming { token throws(RedisError) in
            try await self.queue.waitAndClaim(self.identity, token: token, block: Self.block, on: self.waiter)
        }.flatMap { self.accept($0, sent: sent) }
    }

    /// Claims what waits now; nil if nothing does.
    func claimNow() async -> (claim: Claim?, isEmpty: Bool) {
        guard state.withLock({ $0.mayClaim }) else { return (nil, true) }
        let reply = await claiming { token throws(RedisError) in try await self.queue.claim(self.identity, token: token)
        }
        guard let reply else { return (nil, false) }
        if case .job(let claim) = reply { return (claim, false) }
        return (accept(reply, sent: .now), true)
    }

    /// The claim that a reply holds; what else it says is noted.
    func accept(_ reply: ClaimReply, sent: ContinuousClock.Instant) -> Claim? {
        switch reply {
        case .job(let claim): return claim
        case .empty: return nil
        case .closed:
            state.withLock { $0.isOpen = false }
            return nil
        }
    }

    private func claiming(_ ask: (String) async throws(RedisError) -> ClaimReply) async -> ClaimReply? {
        let token = Token.make()
        // Until its run is entered, a claim is known by its token only.
        let mayClaim = state.withLock { $0.mayClaim && $0.pending.insert(token).inserted }
        guard mayClaim else { return nil }
        do {
            let reply = try await ask(token)
            if case .job = reply {} else { state.withLock { _ = $0.pending.remove(token) } }
            return reply
        } catch {
            state.withLock { state in
                state.pending.remove(token)
                state.isInDoubt = true
            }
            await pause(after: error, while: "waiting for jobs")
            return nil
        }
    }

    /// Until when Redis is tried, now that the worker is to end; the leases lapse after that.
    func end(by deadline: ContinuousClock.Instant) { state.withLock { $0.deadline = deadline } }

    var isOutOfTime: Bool { state.withLock { $0.deadline.map { $0 < .now } ?? false } }

    /// Ends the wait at once; its replies are still read.
    func unblock() async {
        guard let id = await waiter.connectionID else { return }
        _ = try? await queue.redis.send(Command("CLIENT", "UNBLOCK", id), timeout: .seconds(1))
    }

    // MARK: Runs

    func enter(_ running: RunningJob, _ download: Download) {
        let isFirst = state.withLock { state in
            state.pending.remove(running.run.token)
            state.running[running.run.token] = running
            state.downloads[running.run.token] = download
            defer { state.isCheckpointing = true }
            return !state.isCheckpointing
        }
        if isFirst { Task { await checkpoint() } }
    }

    /// While there are runs: a checkpoint of each every 32 MiB and every second. One task looks after all of them; with very
    /// many both the looks and the checkpoints become rarer, so that they do not drown the disk.
    private func checkpoint() async {
        while true {
            try? await Task.sleep(for: .milliseconds(min(1000, max(100, 5 * runningCount))))
            let runs = state.withLock { state in
                state.isCheckpointing = !state.running.isEmpty
                return state.running.values.map { ($0, state.downloads[$0.run.token]) }
            }
            if runs.isEmpty { return }
            let interval = max(.seconds(1), .milliseconds(10) * runs.count)
            for case (let running, let download?) in runs {
                running.checkpointIfDue(download, interval: interval) { self.hurry() }
            }
        }
    }

    /// The run has ended; until it is settled or forgotten its claim is still ours.
    func leave(_ running: RunningJob) {
        state.withLock { state in
            state.pending.insert(running.run.token)
            state.running[running.run.token] = nil
            state.downloads[running.run.token] = nil
        }
    }

    /// A claim that is settled, or another's.
    func forget(_ run: Run) { state.withLock { _ = $0.pending.remove(run.token) } }

    var running: [RunningJob] { state.withLock { Array($0.running.values) } }
    var runningCount: Int { state.withLock { $0.running.count } }

    /// Tells Redis how a run ended, until Redis has heard it; a settle may be sent again. Returns the next claim, if one
    /// was asked for and given; `isEmpty` if the queue had none.
    func settle(
        _ run: Run, as settlement: Settlement, report: RunReport, wantsNext: Bool
    ) async -> (isOurs: Bool, next: Claim?, isEmpty: Bool) {
        defer { forget(run) }
        var next = wantsNext ? Token.make() : nil
        while true {
            let sent = ContinuousClock.now
            do {
                next = state.withLock { state in
                    guard let next, state.mayClaim else { return nil }
                    state.pending.insert(next)
                    return next
                }
                let (isOurs, reply) = try await queue.settle(
                    run, as: settlement, report: report, worker: identity, next: next)
                let claim = reply.flatMap { accept($0, sent: sent) }
                if claim == nil, let next { state.withLock { _ = $0.pending.remove(next) } }
                return (isOurs, claim, reply != nil && claim == nil)
            } catch {
                // The claim of a settle whose reply was lost is put back by the next registration.
                if let next { state.withLock { _ = $0.pending.remove(next) } }
                next = nil
                state.withLock { $0.isInDoubt = true }
                if isOutOfTime {
                    log.warning(
                        "not settled within the grace time: it runs again elsewhere", metadata: ["id": "\(run.id)"])
                    return (false, nil, false)
                }
                await pause(after: error, while: "settling a job")
            }
        }
    }

    // MARK: The tick

    /// Looks after the queue once a second, sooner when there is news, until the task is cancelled.
    func tend(_ fields: @escaping @Sendable () -> [(String, String)]) async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.listen() }
            group.addTask { await self.leftovers.tend() }
            group.addTask {
                while !Task.isCancelled {
                    try? await Task.sleep(for: .seconds(1))
                    self.nudge.yield()
                }
                self.nudge.finish()
            }
            for await _ in nudges {
                if Task.isCancelled { break }
                await tick(fields())
            }
            group.cancelAll()
        }
    }

    /// Asks for a tick at once.
    func hurry() { nudge.yield() }

    /// Asks for a tick in a moment, if a run has had something to tell for as long then: a short job tells it all at its end, a
    /// longer one is not silent until the next second.
    func hurrySoon() {
        let isFirst = state.withLock { state in
            defer { state.isHurrying = true }
            return !state.isHurrying
        }
        guard isFirst else { return }
        Task {
            try? await Task.sleep(for: .milliseconds(100))
            state.withLock { $0.isHurrying = false }
            guard let oldest = running.compactMap(\.newsSince).min() else { return }
            if oldest <= .now - .milliseconds(90) { hurry() } else { hurrySoon() }
        }
    }

    /// One tick now; false if Redis could not be asked.
    @discardableResult
    func tick(_ fields: [(String, String)]) async -> Bool {
        let runs = running
        let sent = ContinuousClock.now
        let reports = runs.map { running in
            var report = running.takeReport()
            if let download = state.withLock({ $0.downloads[running.run.token] }) {
                Progress.add(download.progress(), to: &report, of: running)
            }
            return report
        }
        do {
            if state.withLock({ !$0.isRegistered || $0.isInDoubt }) { try await register(fields) }
            let reply = try await queue.tick(identity, fields: fields, runs: Array(zip(runs.map(\.run), reports)))
            state.withLock { $0.isOpen = reply.isOpen }
            await leftovers.unlink(reply.dropped)
            for running in runs {
                let token = running.run.token
                if reply.fenced.contains(token) {
                    // Said once, however many ticks pass before the run has ended.
                    if running.stop(.fenced) {
                        log.warning("fenced: another worker has the job", metadata: ["id": "\(running.run.id)"])
                    }
                    continue
                }
                running.lease.extend(sent: sent)
                switch reply.requests[token] {
                case .paused: running.stop(.paused)
                case .cancelled, .removed, .deleted: running.stop(.cancelled)
                case .running, nil: break
                }
                if let deadline = running.claim.deadline, deadline < running.claim.clock.milliseconds {
                    running.stop(.deadline)
                }
            }
            return true
        } catch {
            for (running, report) in zip(runs, reports) { running.putBack(report) }
            state.withLock { $0.isInDoubt = true }
            await pause(after: error, while: "looking after the queue")
            return false
        }
    }

    /// Makes this worker known, waiting for an earlier process of the same name to be gone.
    func register(_ fields: [(String, String)]) async throws(RedisError) {
        let known = state.withLock { state in
            state.isInDoubt = false
            state.registrations += 1
            return Array(state.pending) + Array(state.running.keys)
        }
        defer { state.withLock { $0.registrations -= 1 } }
        // What a lost wait still takes would not be found by this registration.
        try await waiter.connect()
        var tries = 0
        while !(try await queue.register(identity, fields: fields, known: known)) {
            tries += 1
            guard tries < 40 else {
                throw RedisError(
                    .reply, "another live worker has the name \(identity.name): give this one another with --name")
            }
            try? await Task.sleep(for: .milliseconds(100))
        }
        state.withLock { $0.isRegistered = true }
    }

    /// A message on the control channel is a hint that a request waits for one of our runs.
    private func listen() async {
        let subscription = Subscription(
            queue.redis.url, name: "haul-\(identity.name)-control", channels: [queue.keys.control])
        for await element in subscription {
            switch element {
            case .message(_, let payload):
                let id = String(decoding: payload, as: UTF8.self)
                if running.contains(where: { $0.run.id == id }) { hurry() }
            case .interrupted(let error): note(error, while: "listening to the control channel")
            case .subscribed: break
            }
        }
    }

    // MARK: The end

    func close() async {
        try? await queue.leave(identity)
        await waiter.close()
        await queue.redis.close()
    }

    private func pause(after error: RedisError, while what: String) async {
        note(error, while: what)
        // A task of its own: in a cancelled one the sleep would end at once, and the caller would spin.
        await Task { try? await Task.sleep(for: .milliseconds(Int.random(in: 200...800))) }.value
    }

    private func note(_ error: RedisError, while what: String) {
        let isNews = state.withLock { state in
            if let trouble = state.trouble, trouble.reason == error.message,
                ContinuousClock.now - trouble.at < .seconds(10)
            {
                return false
            }
            state.trouble = (error.message, .now)
            return true
        }
        if isNews, !Task.isCancelled {
            log.warning("Redis failed", metadata: ["while": "\(what)", "reason": "\(error)"])
        }
    }
}
