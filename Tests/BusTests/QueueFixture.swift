import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// A queue on a Redis server of its own, and a worker whose calls the test makes.
struct QueueFixture {
    let server: RedisServer
    let redis: Redis
    let queue: Queue
    let worker = WorkerIdentity(name: "w1", store: "s")

    init(
        on kind: RedisServer.Kind = .standard, settings: [String] = [], _ change: (inout QueuePolicy) -> Void = { _ in }
    ) async throws {
        server = try await RedisServer(settings, kind: kind)
        redis = Redis(try RedisURL(server.url), name: "test")
        var policy = QueuePolicy()
        change(&policy)
        queue = Queue(.default, redis: redis, policy: policy)
        _ = try await queue.register(worker, fields: [], known: [])
    }

    func push(_ element: String) async throws { try await redis.send(Command("LPUSH", queue.keys.jobs, element)) }

    func push(_ elements: [String]) async throws {
        for page in elements.chunks(ofCount: 500) {
            try await redis.send(Command(arguments: ["LPUSH", queue.keys.jobs] + page))
        }
    }

    func claim(_ name: String? = nil) async throws -> Claim? {
        var worker = worker
        if let name {
            worker = WorkerIdentity(name: name, store: "s", instance: name)
            let isKnown = try await redis.send(Command("EXISTS", queue.keys.worker(name))).int == 1
            if !isKnown { _ = try await queue.register(worker, fields: [], known: []) }
        }
        if case .job(let claim) = try await queue.claim(worker, token: Token.make()) { return claim }
        return nil
    }

    @discardableResult
    func settle(_ claim: Claim, _ settlement: Settlement) async throws -> Bool {
        try await queue.settle(claim.run, as: settlement, report: RunReport(), worker: worker, next: nil).isOurs
    }

    @discardableResult
    func tick(_ claims: [Claim] = []) async throws -> TickReply {
        try await queue.tick(worker, fields: [], runs: claims.map { ($0.run, RunReport()) })
    }

    /// Reports that a run is at work, or that it only waits for its host.
    func reportActive(_ claim: Claim, isActive: Bool = true) async throws {
        var report = RunReport()
        report.set(isActive: isActive, of: claim.run)
        _ = try await queue.tick(worker, fields: [], runs: [(claim.run, report)])
    }

    /// Checks that the rules of the bus hold for every key, and that the functions sent no command that Redis cannot
    /// read: they expect errors of keys that others have written, and of missing rights, but none of their own.
    func expectOrder() async throws {
        let findings = try await Inspection(queue).run()
        #expect(findings.isEmpty, "\(findings.map { "\($0.subject): \($0.problem)" })")
        let errors = try await redis.send(Command("INFO", "errorstats")).string ?? ""
        let calls = try await redis.send(Command("INFO", "commandstats")).string ?? ""
        func count(_ name: String, in line: String, of text: String) -> Int {
            guard let line = text.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(line) }) else {
                return 0
            }
            let number = line.split(whereSeparator: { ":,".contains($0) }).first { $0.hasPrefix(name + "=") }
            return number.flatMap { Int($0.dropFirst(name.count + 1)) } ?? 0
        }
        // A call of functions that are not loaded yet fails as a whole.
        let unloaded =
            count("failed_calls", in: "cmdstat_fcall:", of: calls)
            + count("rejected_calls", in: "cmdstat_fcall:", of: calls)
        #expect(count("count", in: "errorstat_ERR:", of: errors) <= unloaded, "\(errors)\(calls)")
    }

    func state(_ id: String) async throws -> JobState? { try await queue.job(id)?.state }

    static let file = CompletedFile(
        file: "f", bytes: 3, store: "s", inode: 1, modified: 1, entity: Entity(etag: "\"e\"", total: 3),
        source: "http://h/f", validated: 1)
    static let done = Settlement.completed(file, seconds: 1, unchanged: false)
}

extension Queue {
    /// Makes all calls of a tick.
    @discardableResult
    func tick(
        _ worker: WorkerIdentity, fields: [(String, String)] = [], runs: [(Run, RunReport)], isHeld: Bool = false,
        deadWorkers: [ColocatedWorker] = []
    ) async throws(RedisError) -> TickReply {
        var tick = Tick(worker, runs: runs, fields: fields, isHeld: isHeld, deadWorkers: deadWorkers)
        try await perform(&tick)
        return tick.reply
    }

    /// Claims one job.
    func claim(_ worker: WorkerIdentity, token: String) async throws(RedisError) -> ClaimReply {
        try await claim(worker, tokens: [token]).first ?? .empty()
    }

    /// Waits for one job.
    func waitAndClaim(
        _ worker: WorkerIdentity, token: String, block: Duration, on waiter: Redis
    ) async throws(RedisError) -> ClaimReply {
        try await waitAndClaim(worker, tokens: [token], block: block, on: waiter).first ?? .empty()
    }

    /// Settles one run.
    @discardableResult
    func settle(
        _ run: Run, as settlement: Settlement, report: RunReport = RunReport(), worker: WorkerIdentity,
        next: String? = nil
    ) async throws(RedisError) -> (isOurs: Bool, next: ClaimReply?) {
        let reply = try await settle(
            [RunEnd(run, settlement, report)], worker: worker, next: next.map { [$0] } ?? [])
        return (try reply.isOurs[0].get(), reply.next.first)
    }
}
