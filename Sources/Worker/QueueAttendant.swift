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

/// One queue as this worker serves it: waiting for jobs, the tick, and the runs that are under way.
///
/// It has more than eight stored properties because it joins what serves the queue: two clients of Redis, the settler, the leftovers
/// and the wait for replicas. What changes is in `state` alone.
final class QueueAttendant: Sendable {
    /// A run that is under way, and what does its job.
    struct Entry {
        let running: RunningJob
        let activity: any Activity
    }

    struct State {
        var ledger = ClaimLedger<Entry>()
        var ticks = TickRequests()
        var isCheckpointing = false
        /// Workers on this machine whose processes are gone, to be told with the next tick.
        var gone: [Neighbour] = []
        /// When the grace time is over, once the worker is told to end.
        var deadline: ContinuousClock.Instant?
        /// Runs whose end Redis has not heard of within the grace time.
        var unsettled = 0
        var trouble = TroubleNote()
        var outage = Outage()
        /// Kinds of jobs that were last seen to wait for other workers.
        var aside: Set<String> = []
        /// What was last said to have no effect.
        var ignored: Set<String> = []
        /// Bytes that runs which have ended have moved.
        var moved: Int64 = 0
    }

    /// Which ticks are asked for.
    struct TickRequests {
        /// Somebody waits a moment to ask for one.
        var isHurrying = false
        /// The next one is to be of the whole queue, and of all runs.
        var isLookDue = false
    }

    /// A wait lasts at most this long; then the claim behind it looks for what others left in `held`.
    static let block: Duration = .seconds(5)
    /// For looks at /proc, which may block.
    static let proc = BlockingPool(name: "proc", limit: 1)

    let index: Int
    let queue: Queue
    let settler: Settler
    /// The worker's shares of limits of rate.
    let rates = SharedRates()
    let pacemaker: Pacemaker
    let waiter: Redis
    private let process: WorkerIdentity
    let log: Logger
    let journal: QueueJournal
    let leftovers: Leftovers
    /// nil: completed jobs are told of at once.
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
        pacemaker = Pacemaker(queue)
        leftovers = Leftovers(queue, store)
        waiter = Redis(configuration.redis, name: "haul-\(identity.name)-wait", replies: .owed)
        var log = log
        log[metadataKey: "queue"] = "\(name)"
        self.log = log
        if !configuration.logsJobs { log = Logger(label: log.label, factory: { _ in SwiftLogNoOpLogHandler() }) }
        journal = QueueJournal(log: log, figures: QueueFigures(queue: "\(name)", in: registry))
        replicaWait =
            configuration.settleReplicas == 0
            ? nil : ReplicaWait(queue, replicas: configuration.settleReplicas, worker: identity.name, log: log)
    }

    /// This process, as it has registered last.
    var identity: WorkerIdentity {
        var identity = process
        identity.session = state.withLock { $0.ledger.session }
        return identity
    }

    // MARK: Claims

    /// Waits for a job and claims it, and up to `most` if they are there. None: there was none, or Redis could not be asked (a
    /// pause has passed then).
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

    /// Claims what waits now; nil if nothing does.
    func claimNow() async -> (claim: Claim?, isEmpty: Bool) {
        guard state.withLock({ $0.ledger.mayClaim }) else { return (nil, true) }
        while true {
            let begun = ContinuousClock.now
            let replies = await claiming(1) { tokens throws(RedisError) in
                try await self.queue.claim(self.identity, tokens: tokens)
            }
            if replies != nil { figures.claiming.record(since: begun) }
            guard let reply = replies?.first else { return (nil, false) }
            if case .more = reply { continue }
            return (accept(reply), reply.isEmpty)
        }
    }

    /// The claim that a reply holds; what else it says is noted.
    func accept(_ reply: ClaimReply) -> Claim? {
        switch reply {
        case .job(let claim):
            journal.claimed(claim)
            return claim
        case .more: break
        case .empty: note(.open)
        case .paused: note(.paused)
        case .full: note(.full)
        case .quiet: note(.quiet)
        case .stale:
            // Redis has forgotten the worker, or knows a later registration than the one that we asked under.
            state.withLock { $0.ledger.doubt() }
            hurry()
        }
        return nil
    }

    /// Notes what Redis says of the queue.
    func note(_ gate: QueueGate) {
        guard state.withLock({ $0.ledger.note(gate) }) else { return }
        log.info(gate == .quiet ? "quiet: taking no more jobs" : "no longer quiet: taking jobs")
        // The worker's record says so at once.
        look()
    }

    private func claiming(
        _ count: Int, _ ask: ([String]) async throws(RedisError) -> [ClaimReply]
    ) async -> [ClaimReply]? {
        let tokens = (0..<count).map { _ in Token.make() }
        // Until its run is entered, a claim is known by its token only.
        guard state.withLock({ $0.ledger.begin(tokens) }) else { return nil }
        do {
            let replies = try await ask(tokens)
            let claimed = replies.compactMap { if case .job(let claim) = $0 { claim.run.token } else { nil } }
            state.withLock { $0.ledger.end(tokens, claimed: claimed) }
            noteSuccess(of: .waiting)
            return replies
        } catch {
            state.withLock { $0.ledger.lose(tokens) }
            // The worker ends its own wait when it is told to end.
            if !isEnding { await pause(after: error, while: .waiting) }
            // Nothing is claimed before it is registered anew.
            hurry()
            return nil
        }
    }

    /// What is under way when the grace time is over may still be answered.
    private static let lastWord: Duration = .milliseconds(300)

    /// Until when Redis is tried, now that the worker is to end; the leases lapse after that. Ends the wait for jobs at once:
    /// what it took all the same is put back by the registration that follows, and the claim behind it gets nothing.
    func end(by deadline: ContinuousClock.Instant) async {
        state.withLock { $0.deadline = deadline }
        await queue.redis.end(by: deadline + Self.lastWord)
        await replicaWait?.end(by: deadline)
        await waiter.close()
    }

    var isEnding: Bool { state.withLock { $0.deadline != nil } }

    var unsettled: Int { state.withLock { $0.unsettled } }

    var isOutOfTime: Bool { state.withLock { $0.deadline.map { $0 < .now } ?? false } }

    // MARK: The end

    func close() async {
        // Claims that Redis counts as ours, though we never heard of them, go back first.
        if state.withLock({ $0.ledger.isInDoubt }), !isOutOfTime { try? await register([]) }
        try? await queue.leave(identity, received: moved)
        await queue.redis.close()
    }

    func pause(after error: RedisError, while what: Errand) async {
        note(error, while: what)
        let end = ContinuousClock.now + .milliseconds(Int.random(in: 200...800))
        let deadline = state.withLock { $0.deadline } ?? end
        // A task of its own: in a cancelled one the sleep would end at once, and the caller would spin.
        await Task { try? await Task.sleep(until: min(end, deadline), clock: .continuous) }.value
    }

    /// What Redis is asked for.
    enum Errand: String {
        case registering
        case waiting = "waiting for jobs"
        case settling = "settling a job"
        case looking = "looking after the queue"
        case listening = "listening to the control channel"
    }

    func note(_ error: RedisError, while what: Errand) {
        guard !Task.isCancelled else { return }
        figures.redisFailures.increment()
        let isNews = state.withLock { state in
            state.outage.failed(what.rawValue)
            return state.trouble.isNews(error.message)
        }
        guard isNews else { return }
        log.warning("Redis failed", metadata: ["while": "\(what.rawValue)", "reason": "\(error)"])
        // Redis does not say which key it is.
        if error.code == .wrongType { Task { await tellWrongTypes() } }
    }

    /// Says that Redis is back, once nothing fails any more that failed.
    func noteSuccess(of errand: Errand) {
        guard let outage = state.withLock({ $0.outage.worked(errand.rawValue) }) else { return }
        log.notice("Redis is back", metadata: ["seconds": .stringConvertible(outage.roundedSeconds)])
    }

    var figures: QueueFigures { journal.figures }

    /// Bytes of bodies that have come for this queue's jobs since the worker began.
    var moved: Int64 {
        let (ended, running) = state.withLock { ($0.moved, $0.ledger.runs.values.map(\.activity)) }
        return running.reduce(ended) { $0 + $1.moved }
    }

    private func tellWrongTypes() async {
        for finding in (try? await Inspection(queue).wrongTypes(for: identity)) ?? [] {
            log.error("\(finding.subject): \(finding.problem)", metadata: ["advice": "\(finding.advice)"])
        }
    }
}
