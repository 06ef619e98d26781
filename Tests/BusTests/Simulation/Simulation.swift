import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

/// A queue, its workers and its users, under a clock that the simulation controls.
///
/// Redis expires keys by its own clock. So the simulation deletes keys that have expired by its clock, after it has
/// checked that the functions have given them a time to live.
struct Simulation {
    static let dawn: Int64 = 1_800_000_000_000
    static let clock = "simulated:now"
    /// The key of the server's run id, which changes when data is lost.
    static let run = "simulated:run"
    /// How many of the newest jobs still get pushes and operations.
    static let window = 24

    struct Worker {
        var identity: WorkerIdentity
        let life: ProcessLife
        var runs: [Claim] = []
        /// Control operations that runs have received and not obeyed yet, by token.
        var reported: [String: ControlOperation] = [:]
        var isFrozen = false
        /// The connection was lost, so the worker registers before its next tick or claim.
        var mayBeOutOfSync = false
        /// Workers on its machine that its last tick reported as silent.
        var silent: [ColocatedWorker] = []
        /// Its leases of rate limits, by the limits' names.
        var rateLeases: [String: FleetLimits.Lease] = [:]
        /// Schedules that it has found due and not pushed yet.
        var lateSchedules: [DueSchedule] = []
        /// The number of its last request for leases.
        var requestNumber = 0
    }

    let server: RedisServer
    let redis: Redis
    let queue: Queue
    var random: SeededGenerator
    var ledger: Ledger
    /// This is not rolled back with Redis' data.
    var limits = FleetLimits()
    var workers: [Worker] = []
    var snapshots: [Snapshot] = []
    /// The processes of workers that were killed, and the names that no worker has taken since.
    var dead: Set<String> = []
    var deadNames: Set<String> = []
    let events: EventLog
    /// The last entry of the event stream that was compared with what was published.
    var comparedEntry = "0-0"
    /// Counters for names that are never used again, not even after a rollback.
    var names = 0
    var numbers = 0
    /// A counter for names of reply lists.
    var lists = 0
    /// Completed jobs that expired before their completion was announced. In their batches they stay pending.
    var neverAnnounced: Set<String> = []
    private(set) var counts: [String: Int] = [:]

    /// - Parameter patch: Lua behind the functions.
    init(
        seed: UInt64, on kind: RedisServer.Kind = .standard, name: QueueName = .default, patch: String? = nil
    ) async throws {
        random = SeededGenerator(state: seed)
        server = try await RedisServer(kind: kind)
        redis = Redis(try RedisURL(server.url), name: "simulation")
        var policy = QueuePolicy()
        policy.crashLimit = 2
        policy.keepCompleted = .seconds(60)
        policy.keepFailed = .seconds(120)
        policy.keepCancelled = .seconds(90)
        ledger = Ledger(policy: policy)
        ledger.now = Self.dawn
        queue = Queue(
            name, redis: redis, policy: policy,
            functions: Functions(
                clock: "return redis.call('GET', '\(Self.clock)')", server: "return redis.call('GET', '\(Self.run)')",
                patch: patch))
        let log = EventLog(queue)
        events = log
        try await redis.send(Command("SET", Self.run, Token.make()))
        try await eventually("the subscription to all events") { log.isListening }
        try await advance(0)
        try await setDefaults()
        try await queue.set(.eventStream, to: "1000000")
        for _ in 0..<4 { try await startWorker() }
    }

    mutating func record(_ what: String, _ number: Int = 1) { counts[what, default: 0] += number }

    /// Lets time pass, and deletes what has expired.
    mutating func advance(_ milliseconds: Int64) async throws {
        ledger.now += milliseconds
        try await redis.send(Command("SET", Self.clock, Int(ledger.now)))
        for id in ledger.expired() {
            record("expired")
            let names = [queue.keys.job(id), queue.keys.spec(id), queue.keys.offsets(id)]
            // No worker made a tick for so long that the completion was never announced.
            if try await redis.send(Command("ZSCORE", queue.keys.unannounced, id)) != .null {
                ledger.jobs[id]?.replyLists = []
                neverAnnounced.insert(id)
            }
            let times = try await redis.pipeline(names.map { .command(Command("PTTL", $0)) })
            if times.contains(where: { $0.int == -1 }) { ledger.recordViolation("\(id) would stay for ever") }
            try await redis.send(Command("DEL", names[0], names[1], names[2]))
        }
    }

    /// Checks what a call has done to every job.
    mutating func observe(_ cause: Ledger.Cause) async throws {
        try await recordWebhooks()
        try await recordRuns()
        let ids = ledger.ids
        let facts = try await redis.send(Facts.reading(ids, of: queue)).array ?? []
        let waiting = try await redis.send(Command("HKEYS", queue.keys.want)).array?.compactMap(\.string) ?? []
        let pending = Set(waiting)
        for (id, fact) in zip(ids, facts) {
            ledger.check(id, Facts(fact), cause, isApplied: !pending.contains(id))
        }
        try await checkBatches()
    }

    // MARK: Steps

    mutating func run(steps: Int) async throws {
        for step in 0..<steps where ledger.violations.count < 20 {
            try await self.step()
            if step > 0, step.isMultiple(of: 500) { try await inspect("step \(step)") }
        }
    }

    private mutating func step() async throws {
        try await keepSnapshot()
        switch Int.random(in: 0..<1000, using: &random) {
        case 0..<100: try await push()
        case 100..<220: try await pushAgain()
        case 220..<300: try await applyRandomOperation()
        case 300..<500: try await claim()
        case 500..<660: try await settle()
        case 660..<820: try await tick()
        case 820..<835: try await kill()
        case 835..<850: freeze()
        case 850..<855: try await shutDownWorker()
        case 855..<860: try await rollBack()
        case 860..<880: try await changeSetting()
        case 880..<890: try await pushInvalid()
        case 890..<891: try await sleep()
        case 891..<900: try await pace()
        case 900..<930: try await leaseRates()
        case 930..<940: try await changeSchedule()
        default: try await advance(Int64.random(in: 0...1500, using: &random))
        }
    }

    mutating func inspect(_ when: String) async throws {
        for index in workers.indices where workers[index].mayBeOutOfSync { try await reconnect(index) }
        // Wrong values of these are set on purpose.
        let spoiled = [queue.keys.limits, queue.keys.defaults]
        for finding in try await Inspection(queue).run()
        where !neverAnnounced.contains(where: finding.problem.hasPrefix)
            && !spoiled.contains(where: finding.subject.hasPrefix)
        {
            ledger.recordViolation("\(when): \(finding.subject) \(finding.problem)")
        }
        try await checkStream()
        try await checkHosts()
        try await checkResponses()
        try await checkFields()
        let waitingIDs = try await waitingIDs()
        try await checkReplies(waitingIDs)
        ledger.dropOld(window: Self.window, waitingIDs: waitingIDs)
    }
}
