import CoreMetrics
import HaulActivities
import HaulBus
import HaulContract
import HaulExecutors
import HaulMetrics
import HaulRedis
import HaulStorage
import Logging
import Synchronization

/// One queue as this worker serves it: the wait for jobs, the ticks, and the active runs.
///
/// It joins what serves the queue: two clients of Redis, the settler, the claimer, the leftovers and the wait for
/// replicas. Only `state` changes.
final class QueueServer: Sendable {
    /// An active run and its activity.
    struct Entry {
        let running: RunningJob
        let activity: any Activity
    }

    struct State {
        var ledger = ClaimLedger<Entry>()
        var ticks = TickRequests()
        var isCheckpointing = false
        /// Workers on this machine whose processes have ended, for the next tick to report.
        var gone: [ColocatedWorker] = []
        /// When the grace time ends; nil until the worker shuts down.
        var deadline: ContinuousClock.Instant?
        /// Runs that could not be settled within the grace time.
        var unsettled = 0
        var trouble = ErrorThrottle()
        var outage = Outage()
        /// The kinds of jobs that the last tick saw waiting for other workers.
        var deferredKinds: Set<String> = []
        /// What was last logged as without effect.
        var ignored: Set<String> = []
        /// Of ended runs.
        var bytes = BodyBytes()
    }

    /// Which ticks are requested.
    struct TickRequests {
        /// A debounced request for a tick is pending (`hurrySoon`).
        var isHurrying = false
        /// The next tick is of the whole queue, and reports all runs.
        var isFullTickDue = false
    }

    /// The longest wait for a job. The claim behind it also finds elements that earlier waits have left in `held`.
    static let block: Duration = .seconds(5)
    /// For reads of /proc, which may block.
    static let proc = BlockingPool(name: "proc", limit: 1)

    let index: Int
    let queue: Queue
    let settler: Settler
    let claimer = Claimer()
    /// The worker's rate leases.
    let rates = SharedRates()
    let pacemaker: StartPacer
    let waiter: Redis
    private let process: WorkerIdentity
    let log: Logger
    let queueLog: QueueLogger
    let leftovers: Leftovers
    /// nil: the completion of jobs is announced at once.
    let replicaWait: ReplicaWait?
    let state = Mutex(State())
    let (nudges, nudge) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(
        index: Int, name: QueueName, identity: WorkerIdentity, configuration: WorkerConfiguration,
        store: any Store, log: Logger, registry: MetricsRegistry
    ) {
        self.index = index
        process = identity
        queue = Queue(
            name, redis: Redis(configuration.redis, name: "haul-\(identity.name)", replies: .owed),
            policy: configuration.policy)
        settler = Settler(queue)
        pacemaker = StartPacer(queue)
        leftovers = Leftovers(queue, store)
        waiter = Redis(configuration.redis, name: "haul-\(identity.name)-wait", replies: .owed)
        var log = log
        log[metadataKey: "queue"] = "\(name)"
        self.log = log
        if !configuration.logsJobs { log = Logger(label: log.label, factory: { _ in SwiftLogNoOpLogHandler() }) }
        queueLog = QueueLogger(log: log, metrics: QueueMetrics(queue: "\(name)", in: registry))
        replicaWait =
            configuration.settleReplicas == 0
            ? nil : ReplicaWait(queue, replicas: configuration.settleReplicas, worker: identity.name, log: log)
    }

    /// This process, with the session of its last registration.
    var identity: WorkerIdentity {
        var identity = process
        identity.session = state.withLock { $0.ledger.session }
        return identity
    }

    // MARK: Claims

    /// Waits for a job and claims it, and up to `most` if there are more. Empty if there was none, or after a failure.
    func wait(most: Int) async -> [Claim] {
        guard state.withLock({ $0.ledger.mayClaim }) else {
            try? await Task.sleep(for: .milliseconds(100))
            return []
        }
        let isFull = state.withLock { $0.ledger.gate == .full }
        return await claiming(most) { tokens throws(RedisError) in
            try await self.queue.waitAndClaim(
                self.identity, tokens: tokens, block: Self.block, isFull: isFull, on: self.waiter)
        }?.compactMap(accept) ?? []
    }

    /// Claims a job that waits now. The claim is nil if none waits, if the worker may not claim, or if Redis failed.
    func claimNow() async -> (claim: Claim?, isEmpty: Bool) {
        guard state.withLock({ $0.ledger.mayClaim }) else { return (nil, true) }
        let reply = await claimer.next { count in
            if self.isEnding { return nil }
            let begun = ContinuousClock.now
            let replies = await self.claiming(count) { tokens throws(RedisError) in
                try await self.queue.claim(self.identity, tokens: tokens)
            }
            if replies != nil { self.metrics.claiming.record(since: begun) }
            return replies
        }
        guard let reply else { return (nil, false) }
        return (accept(reply), reply.isEmpty)
    }

    /// Returns the claim that a reply holds, and records what else it says.
    func accept(_ reply: ClaimReply) -> Claim? {
        switch reply {
        case .job(let claim):
            queueLog.claimed(claim)
            return claim
        case .more: break
        case .empty: record(.open)
        case .paused: record(.paused)
        case .full: record(.full)
        case .quiet: record(.quiet)
        case .stale:
            // Redis has forgotten the worker, or knows a later registration than that of this claim.
            state.withLock { $0.ledger.doubt() }
            hurry()
        }
        return nil
    }

    /// Notes the state of the queue.
    func record(_ gate: QueueGate) {
        guard state.withLock({ $0.ledger.record(gate) }) else { return }
        log.info(gate == .quiet ? "quiet: claims no more jobs" : "no longer quiet: claims jobs again")
        // The worker's record in Redis shall say so at once.
        requestTick()
    }

    private func claiming(
        _ count: Int, _ ask: ([String]) async throws(RedisError) -> [ClaimReply]
    ) async -> [ClaimReply]? {
        let tokens = (0..<count).map { _ in Token.make() }
        // Until its run is entered, a claim is known only by its token.
        guard state.withLock({ $0.ledger.begin(tokens) }) else { return nil }
        do {
            let replies = try await ask(tokens)
            let claimed = replies.compactMap { if case .job(let claim) = $0 { claim.run.token } else { nil } }
            state.withLock { $0.ledger.end(tokens, claimed: claimed) }
            recordSuccess(of: .waiting)
            return replies
        } catch {
            state.withLock { $0.ledger.lose(tokens) }
            // At shutdown the worker itself ends the wait.
            if !isEnding { await pause(after: error, while: .waiting) }
            // The worker claims nothing before it has registered again, which the next tick does.
            hurry()
            return nil
        }
    }

    /// Calls that are in progress when the grace time ends get this long for their replies.
    private static let replyGrace: Duration = .milliseconds(300)

    /// Begins the shutdown: Redis is tried until `deadline`, after which the leases lapse. The wait for jobs ends at
    /// once. If it takes an element all the same, the next registration puts the element back; the claim gets nothing.
    func end(by deadline: ContinuousClock.Instant) async {
        state.withLock { $0.deadline = deadline }
        await queue.redis.end(by: deadline + Self.replyGrace)
        await replicaWait?.end(by: deadline)
        await waiter.close()
    }

    var isEnding: Bool { state.withLock { $0.deadline != nil } }

    var unsettled: Int { state.withLock { $0.unsettled } }

    var isOutOfTime: Bool { state.withLock { $0.deadline.map { $0 < .now } ?? false } }

    // MARK: Closing, errors and metrics

    func close() async {
        // First return claims that Redis counts as ours but whose replies were lost.
        if state.withLock({ $0.ledger.isInDoubt }), !isOutOfTime { try? await register([]) }
        try? await queue.leave(identity, received: bytes.received)
        await queue.redis.close()
    }

    func pause(after error: RedisError, while what: RedisOperation) async {
        record(error, while: what)
        let end = ContinuousClock.now + .milliseconds(Int.random(in: 200...800))
        let deadline = state.withLock { $0.deadline } ?? end
        // A task of its own, since a sleep in a cancelled task ends at once, and the caller would spin.
        await Task { try? await Task.sleep(until: min(end, deadline), clock: .continuous) }.value
    }

    /// The operations on Redis, as the log names them.
    enum RedisOperation: String {
        case registering
        case waiting = "waiting for jobs"
        case settling = "settling a job"
        case ticking = "looking after the queue"
        case listening = "listening to the control channel"
    }

    func record(_ error: RedisError, while what: RedisOperation) {
        guard !Task.isCancelled else { return }
        metrics.redisFailures.increment()
        let isNews = state.withLock { state in
            state.outage.failed(what.rawValue)
            return state.trouble.isNews(error.message)
        }
        guard isNews else { return }
        log.warning("Redis failed", metadata: ["while": "\(what.rawValue)", "reason": "\(error)"])
        // Redis does not say which key has the wrong type.
        if error.code == .wrongType { Task { await reportWrongTypes() } }
    }

    /// Logs that Redis is back, once everything that failed works again.
    func recordSuccess(of operation: RedisOperation) {
        guard let outage = state.withLock({ $0.outage.worked(operation.rawValue) }) else { return }
        log.notice("Redis is back", metadata: ["seconds": .stringConvertible(outage.roundedSeconds)])
    }

    var metrics: QueueMetrics { queueLog.metrics }

    var isQuiet: Bool { state.withLock { $0.ledger.isQuiet } }

    /// Of this queue's jobs, since the worker began.
    var bytes: BodyBytes {
        let (ended, running) = state.withLock { ($0.bytes, $0.ledger.runs.values.map(\.activity)) }
        return running.reduce(into: ended) { $0.add($1) }
    }

    private func reportWrongTypes() async {
        for finding in (try? await Inspection(queue).wrongTypes(for: identity)) ?? [] {
            log.error("\(finding.subject): \(finding.problem)", metadata: ["advice": "\(finding.advice)"])
        }
    }
}
