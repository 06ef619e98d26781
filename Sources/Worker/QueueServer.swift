import CoreMetrics
import HaulBus
import HaulContract
import HaulExecutors
import HaulMetrics
import HaulRedis
import HaulStorage
import Logging
import Synchronization

/// One queue as this worker serves it.
///
/// It joins what serves the queue, and each part owns its state. `state` is of the ticks, which are in an extension.
final class QueueServer: Sendable {
    struct State {
        /// When the last tick was sent by which Redis has seen this worker.
        var seen: ContinuousClock.Instant?
        /// Workers on this machine whose processes have ended, for the next tick to report.
        var deadWorkers: [ColocatedWorker] = []
        /// The kinds of jobs that the last tick saw waiting for other workers.
        var deferredKinds: Set<String> = []
        /// Why schedules could not be planned at the last tick that found some due.
        var unplanned: Set<String> = []
        /// Why Redis refused to publish events, as it was last logged.
        var refused: String?
        /// As they were read last; nil if there are none.
        var hostRates: HostRates?
        /// When these are read again.
        var hostRatesAreDue = ContinuousClock.now
        /// What was last logged as without effect.
        var ignored: Set<String> = []
    }

    /// For reads of /proc, which may block.
    static let proc = BlockingPool(name: "proc", limit: 1)

    let index: Int
    let queue: Queue
    let waiter: Redis
    let grace: Grace
    let redisErrors: RedisErrorHandler
    let table = RunTable()
    let ticks: TickRequests
    let claims: Claims
    let settler: Settler
    /// The worker's rate leases.
    let rates = WorkerRateLeases()
    let pacer: Pacer
    let leftovers: Leftovers
    let unlinker: Unlinker
    /// nil: the completion of jobs is announced at once.
    let replicaWait: ReplicaWait?
    let log: Logger
    let queueLog: QueueLogger
    let state = Mutex(State())

    init(
        index: Int, name: QueueName, identity: WorkerIdentity, configuration: WorkerConfiguration, grace: Grace,
        store: any DurableStore, log: Logger, registry: MetricsRegistry
    ) {
        (self.index, self.grace) = (index, grace)
        queue = Queue(
            name, redis: Redis(configuration.redis, name: "haul-\(identity.name)", replies: .owed),
            policy: configuration.policy)
        waiter = Redis(configuration.redis, name: "haul-\(identity.name)-wait", replies: .owed)
        var log = log
        log[metadataKey: "queue"] = "\(name)"
        self.log = log
        let jobs = configuration.logsJobs ? log : Logger(label: log.label, factory: { _ in SwiftLogNoOpLogHandler() })
        queueLog = QueueLogger(log: jobs, metrics: QueueMetrics(queue: "\(name.whole)", in: registry))
        redisErrors = RedisErrorHandler(queue, identity, grace, log: log, metrics: queueLog.metrics)
        ticks = TickRequests(table)
        pacer = Pacer(queue)
        claims = Claims(queue, waiter: waiter, process: identity, grace, redisErrors, ticks, pacer, queueLog, log: log)
        settler = Settler(queue)
        leftovers = Leftovers(queue, store)
        unlinker = Unlinker(queue, store, log: log)
        replicaWait =
            configuration.settleReplicas == 0
            ? nil : ReplicaWait(queue, replicas: configuration.settleReplicas, worker: identity.name, log: log)
    }

    var metrics: QueueMetrics { queueLog.metrics }

    /// Redis' reply to a settle.
    struct Settled {
        /// False if another worker has the job.
        var isOurs = false
        /// The next claim, if one was requested and made.
        var next: Claim?
        /// The queue had no job.
        var isEmpty = false
    }

    /// How often Redis may refuse a call with a run, while it answers other calls, before the run has a call of its own.
    private static let maxRefusals = 2

    /// Settles a run, and tries again until Redis replies or the grace time has ended. A settle is idempotent.
    ///
    /// Redis may refuse one run for ever, because of a key of its job or because the call is too long. Then the run is sent
    /// alone, so that it does not keep others from being settled, and its lease is extended until an operator has
    /// removed the cause. If Redis refuses the calls as a whole, only ticks notice that another worker has the job.
    func settle(_ end: RunEnd, wantsNext: Bool) async -> Settled {
        let begun = ContinuousClock.now
        defer {
            claims.forget(end.run)
            table.removeRefused(end.run)
        }
        var next = wantsNext ? claims.beginNext() : nil
        var refusals = 0
        while true {
            let (wasFenced, answered) = (table.isFenced(end.run), redisErrors.successes)
            do {
                let reply = try await settler.send(
                    end, as: claims.identity, nextToken: next, isAlone: refusals >= Self.maxRefusals)
                redisErrors.recordSuccess(of: .settling)
                metrics.settling.record(since: begun)
                if end.settlement.isCompleted { replicaWait?.record() }
                // A tick plans the calls for jobs that are due later.
                if let delay = end.settlement.delay, delay < .seconds(1) { pacer.begin(after: delay) }
                let claim = next.flatMap { claims.end($0, with: reply.next) }
                return Settled(isOurs: reply.isOurs, next: claim, isEmpty: reply.next?.isEmpty ?? false)
            } catch {
                if let token = next.take() { claims.lose(token) }
                if grace.hasEnded {
                    table.recordUnsettled()
                    return Settled()
                }
                if wasFenced { return Settled() }
                table.addRefused(end.run)
                await redisErrors.pause(after: error, while: .settling, of: end.run.id)
                if redisErrors.successes != answered { refusals += 1 }
                ticks.requestEarlyTick()
            }
        }
    }

    // MARK: Shutdown

    /// Calls that are in progress when the grace time ends get this long for their replies.
    private static let replyGrace: Duration = .milliseconds(300)

    /// Begins the shutdown: Redis is tried until `deadline`, after which the leases lapse. The wait for jobs ends at
    /// once. If it takes an element all the same, the next registration puts the element back; the claim gets nothing.
    func end(by deadline: ContinuousClock.Instant) async {
        await queue.redis.end(by: deadline + Self.replyGrace)
        await replicaWait?.end(by: deadline)
        await waiter.close()
    }

    func close() async {
        // First return claims that Redis counts as ours but whose replies were lost.
        if claims.mayBeOutOfSync, !grace.hasEnded { try? await claims.register([]) }
        try? await queue.leave(claims.identity, received: table.bytes.received)
        await queue.redis.close()
    }
}
