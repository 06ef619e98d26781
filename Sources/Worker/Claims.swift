import HaulBus
import HaulMetrics
import HaulRedis
import Logging
import Synchronization

/// The claims and registrations of a queue. It owns the tokens of all claims, from before a claim is requested until its
/// settle is answered.
final class Claims: Sendable {
    /// The maximum wait for a job. The claim behind it also finds elements that earlier waits have left in `held`.
    static let block: Duration = .seconds(5)

    private let queue: Queue
    private let waiter: Redis
    private let process: WorkerIdentity
    private let grace: Grace
    private let redisErrors: RedisErrorHandler
    private let ticks: TickRequests
    private let pacer: Pacer
    private let queueLog: QueueLogger
    private let log: Logger
    private let claimer = Claimer()
    /// The worker's fields at its last full tick, since its record may be gone when it registers from another call. A
    /// record without them would say that the worker does all kinds of jobs.
    private let fields = Mutex<[(String, String)]>([])
    private let ledger = Mutex(ClaimLedger())

    init(
        _ queue: Queue, waiter: Redis, process: WorkerIdentity, _ grace: Grace, _ redisErrors: RedisErrorHandler,
        _ ticks: TickRequests, _ pacer: Pacer, _ queueLog: QueueLogger, log: Logger
    ) {
        (self.queue, self.waiter, self.process, self.grace) = (queue, waiter, process, grace)
        (self.redisErrors, self.ticks, self.pacer, self.queueLog, self.log) = (redisErrors, ticks, pacer, queueLog, log)
    }

    /// This process, with the session of its last registration.
    var identity: WorkerIdentity {
        var identity = process
        identity.session = ledger.withLock { $0.session }
        return identity
    }

    /// The worker claims no more jobs of the queue, because an operator has asked for that.
    var isQuiet: Bool { ledger.withLock { $0.isQuiet } }

    /// Redis has replied that no more jobs may run.
    var isFull: Bool { ledger.withLock { $0.gate == .full } }

    /// Redis and this worker may know different claims.
    var mayBeOutOfSync: Bool { ledger.withLock { $0.mayBeOutOfSync } }

    func markOutOfSync() { ledger.withLock { $0.markOutOfSync() } }

    /// The claim is settled, or another worker has it.
    func forget(_ run: Run) { ledger.withLock { $0.forget(run.token) } }

    // MARK: Claims

    /// Waits for a job and claims it, and up to `maxCount` if there are more. Empty if there was none, or after a
    /// failure.
    func wait(maxCount: Int) async -> [Claim] {
        guard ledger.withLock({ $0.mayClaim }) else {
            try? await Task.sleep(for: .milliseconds(100))
            return []
        }
        let isFull = ledger.withLock { $0.gate == .full }
        return await claiming(maxCount) { tokens throws(RedisError) in
            try await self.queue.waitAndClaim(
                self.identity, tokens: tokens, block: Self.block, isFull: isFull, on: self.waiter)
        }?.compactMap(accept) ?? []
    }

    /// Claims a job that waits now. The claim is nil if none waits, if the worker may not claim, or if Redis failed.
    func claimNow() async -> (claim: Claim?, isEmpty: Bool) {
        guard ledger.withLock({ $0.mayClaim }) else { return (nil, true) }
        let reply = await claimer.next { count in
            if self.grace.isEnding { return nil }
            let begun = ContinuousClock.now
            let replies = await self.claiming(count) { tokens throws(RedisError) in
                try await self.queue.claim(self.identity, tokens: tokens)
            }
            if replies != nil { self.queueLog.metrics.claiming.record(since: begun) }
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
        case .empty(let dueIn):
            record(.open)
            if let dueIn { pacer.begin(after: dueIn) }
        case .paused: record(.paused)
        case .full: record(.full)
        case .quiet: record(.quiet)
        case .stale:
            // Redis has forgotten the worker, or knows a later registration than that of this claim.
            ledger.withLock { $0.markOutOfSync() }
            ticks.requestEarlyTick()
        }
        return nil
    }

    /// Records the state of the queue.
    func record(_ gate: QueueGate) {
        guard ledger.withLock({ $0.record(gate) }) else { return }
        log.info(gate == .quiet ? "quiet: claims no more jobs" : "no longer quiet: claims jobs again")
        // So that the worker's record in Redis shows it at once.
        ticks.requestTick()
    }

    private func claiming(
        _ count: Int, _ ask: ([String]) async throws(RedisError) -> [ClaimReply]
    ) async -> [ClaimReply]? {
        let tokens = (0..<count).map { _ in Token.make() }
        // Until its run is entered, a claim is known only by its token.
        guard ledger.withLock({ $0.begin(tokens) }) else { return nil }
        do {
            let replies = try await ask(tokens)
            let claimed = replies.compactMap { if case .job(let claim) = $0 { claim.run.token } else { nil } }
            ledger.withLock { $0.end(tokens, claimed: claimed) }
            redisErrors.recordSuccess(of: .waiting)
            return replies
        } catch {
            ledger.withLock { $0.lose(tokens) }
            // At shutdown the worker itself ends the wait.
            if !grace.isEnding { await redisErrors.pause(after: error, while: .waiting) }
            // The worker claims nothing before it has registered again, which the next tick does.
            ticks.requestEarlyTick()
            return nil
        }
    }

    // MARK: With a settle

    /// A token for the next claim, which a settle requests. nil if the worker may not claim.
    func beginNext() -> String? {
        let token = Token.make()
        return ledger.withLock { $0.begin([token]) } ? token : nil
    }

    /// Returns the claim that a settle has made.
    func end(_ token: String, with reply: ClaimReply?) -> Claim? {
        let claim = reply.flatMap(accept)
        if claim == nil { ledger.withLock { $0.forget(token) } }
        return claim
    }

    /// The settle got no reply. The next registration puts back the claim that it may have made.
    func lose(_ token: String) { ledger.withLock { $0.lose([token]) } }

    // MARK: Registrations

    /// Registers this worker if Redis may not know its claims.
    func registerIfNeeded(_ fields: [(String, String)]) async throws(RedisError) {
        if ledger.withLock({ $0.needsRegistration }) { try await register(fields, tries: 1) }
    }

    /// The worker's fields, with its state in this queue. Without fields a call leaves the worker's record as it is.
    func fieldsWithState(_ fields: [(String, String)]) -> [(String, String)] {
        if fields.isEmpty { return [] }
        return fields + [("state", grace.isEnding ? "ending" : isQuiet ? "quiet" : "working")]
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
                return redisErrors.recordSuccess(of: .registering)
            } catch {
                guard error.isTransient, wasReached || error.code != .unreachable, !Task.isCancelled else {
                    throw error
                }
                wasReached = true
                await redisErrors.pause(after: error, while: .registering)
            }
        }
    }

    /// Registers this worker. With several tries it waits for an earlier process of the same name to be gone.
    ///
    /// - Throws: `.reply` if another live worker has the name; what Redis answers otherwise.
    func register(_ fields: [(String, String)], tries: Int = 40) async throws(RedisError) {
        let fields = self.fields.withLock { kept in
            if !fields.isEmpty { kept = fields }
            return kept
        }
        let known = ledger.withLock { $0.beginRegistration() }
        var isKnown = false
        defer { ledger.withLock { $0.endRegistration(succeeded: isKnown) } }
        var failures = 0
        while !(try await queue.register(identity, fields: fieldsWithState(fields), known: known)) {
            failures += 1
            guard failures < tries else {
                throw RedisError(
                    .reply, "another live worker has the name \(identity.name): give this one another with --name")
            }
            try? await Task.sleep(for: .milliseconds(100))
        }
        isKnown = true
    }
}
