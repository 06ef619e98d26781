import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

// Workers, and replies that are lost.

extension Simulation {
    mutating func pick() -> Int? {
        workers.indices.filter { !workers[$0].isFrozen }.randomElement(using: &random)
    }

    // MARK: Claims

    mutating func claim() async throws {
        guard let index = pick(), workers[index].runs.count < 3 else { return }
        // On a new connection a worker registers before it waits.
        if workers[index].mayBeOutOfSync { try await reconnect(index) }
        if workers[index].mayBeOutOfSync { return }
        let worker = workers[index].identity
        if random.chance(60) {
            try await moveElement(toHeldOf: worker.name)
            // The worker or its connection dies before the claim.
            if random.chance(5) { return record("half claims") }
            // A claim that was sent over a connection that is lost by now arrives late.
            if worker.session > 0, random.chance(5) { return try await claimLate(worker) }
        }
        let count = Int.random(in: 1...(3 - workers[index].runs.count), using: &random)
        let replies = try await queue.claim(worker, tokens: (0..<count).map { _ in Token.make() })
        try await observe(.claim)
        let claims = replies.compactMap { if case .job(let claim) = $0 { claim } else { nil } }
        checkStart(of: claims)
        try await checkGroups(of: claims)
        if claims.count > 1 { record("claimed together") }
        if !claims.isEmpty, random.chance(4) {
            record("claims whose reply is lost")
            return try await reconnect(index)
        }
        try await begin(claims, index, worker)
    }

    /// Sends a claim of an earlier session. It must get nothing, because no worker would receive its reply.
    private mutating func claimLate(_ worker: WorkerIdentity) async throws {
        var earlier = worker
        earlier.session -= 1
        guard case .stale? = try await queue.claim(earlier, tokens: [Token.make()]).first else {
            return ledger.recordViolation("\(worker.name): a claim of an earlier session was not refused")
        }
        // The claim must have changed nothing.
        try await observe(.registration(worker: "nobody", known: [], isSuccessor: false))
        let held = try await redis.send(Command("LLEN", queue.keys.held(worker.name)))
        if held.int != 0 { ledger.recordViolation("\(worker.name) holds something after a late claim") }
        record("late claims")
    }

    /// Begins jobs, until one of them kills the worker.
    private mutating func begin(_ claims: [Claim], _ index: Int, _ worker: WorkerIdentity) async throws {
        for claim in claims where workers[index].identity.instance == worker.instance { try await begin(claim, index) }
    }

    private mutating func begin(_ claim: Claim, _ index: Int) async throws {
        record("claims")
        guard let job = ledger.jobs[claim.run.id] else {
            return ledger.recordViolation("\(claim.run.id): it is unknown")
        }
        let offsets = claim.resume?.offsets ?? ByteIntervals()
        if offsets != job.checkpoint {
            ledger.recordViolation(
                "\(claim.run.id) goes on from \(offsets.intervals), and not from \(job.checkpoint.intervals)")
        }
        workers[index].runs.append(claim)
        if claim.wasLost {
            record("reported as at work before they begin")
            var report = RunReport()
            report.set(isActive: true, of: claim.run)
            _ = try await send(index, [(claim.run, report)], .runs)
        }
        if job.isPoison {
            record("poisoned")
            try await kill(index)
        }
    }

    /// The worker registers on a new connection with the claims that it knows, perhaps twice.
    mutating func reconnect(_ index: Int) async throws {
        workers[index].identity.session += 1
        let worker = workers[index]
        workers[index].mayBeOutOfSync = false
        let known = worker.runs.map(\.run.token)
        for _ in 0..<(random.chance(20) ? 2 : 1) {
            guard try await queue.register(worker.identity, fields: [], known: known) else {
                // Another worker has its name by now.
                workers[index].mayBeOutOfSync = true
                return record("names refused")
            }
            try await observe(.registration(worker: worker.identity.name, known: Set(known), isSuccessor: false))
            let held = try await redis.send(Command("LLEN", queue.keys.held(worker.identity.name)))
            if held.int != 0 { ledger.recordViolation("\(worker.identity.name) holds something after it registered") }
        }
    }

    // MARK: Settling

    /// Settles one run, or several that end together.
    mutating func settle() async throws {
        guard let index = pick(), !workers[index].runs.isEmpty else { return }
        let count = random.chance(60) ? 1 : Int.random(in: 1...3, using: &random)
        let ends = workers[index].runs.shuffled(using: &random).prefix(count).map { ($0, settlement()) }
        try await finish(ends, of: index, goesOn: true)
    }

    private mutating func settlement() -> Settlement {
        switch Int.random(in: 0..<20, using: &random) {
        case 0, 1: .failed(Failure(.http(404), "m"), retryable: false, received: 0)
        case 2:
            .retry(
                after: .seconds(Int64.random(in: 0...5, using: &random)),
                Failure(random.chance(50) ? .connect : .http(429), "m"))
        case 3: .retryAfterProgress(after: .seconds(Int64.random(in: 0...5, using: &random)), Failure(.connect, "m"))
        case 4: .parked(after: .seconds(2), reason: "disk")
        case 5, 6: .released(why: "test")
        case 7, 8: .responded(response(), seconds: 1, unchanged: false)
        default: QueueFixture.done
        }
    }

    private mutating func response() -> StoredResponse {
        let body = [UInt8](repeating: 120, count: Int.random(in: 0...300, using: &random))
        return StoredResponse(
            status: 200, headers: [], body: body, requestDigest: "q", method: "GET", validated: ledger.now)
    }

    mutating func finish(_ claim: Claim, of index: Int, as settlement: Settlement) async throws {
        try await finish([(claim, settlement)], of: index, goesOn: false)
    }

    /// Settles runs. The reply may be lost, and then they are settled again.
    private mutating func finish(
        _ ends: [(claim: Claim, settlement: Settlement)], of index: Int, goesOn: Bool
    ) async throws {
        for (claim, _) in ends {
            workers[index].runs.removeAll { $0.run == claim.run }
            workers[index].reported[claim.run.token] = nil
        }
        let areOurs = ends.map { ledger.holds($0.claim.run) }
        var reports: [RunReport] = []
        for (claim, _) in ends { reports.append(report(of: claim, chance: 30)) }
        let mayGoOn = goesOn && !workers[index].mayBeOutOfSync && random.chance(50)
        let next = mayGoOn ? (0..<Int.random(in: 1...ends.count, using: &random)).map { _ in Token.make() } : []
        let awaitsReplicas = random.chance(20)
        var followers: [String?] = []
        for end in ends { followers.append(end.settlement.endsJob && random.chance(30) ? replyName() : nil) }
        let runEnds = ends.indices.map { index in
            RunEnd(
                ends[index].claim.run, ends[index].settlement, reports[index], awaitsReplicas: awaitsReplicas,
                steps: followers[index].map(Self.step) ?? .none)
        }
        let worker = workers[index].identity
        let isAnyOurs = areOurs.contains(true)
        let before = try await traces(of: ends)
        let reply = try await queue.settle(runEnds, worker: worker, next: next)
        let answers = try reply.isOurs.map { try $0.get() }
        let begun = reply.next.compactMap { if case .job(let claim) = $0 { claim } else { nil } }
        checkStart(of: begun)
        try await checkGroups(of: begun)
        if !isAnyOurs, next.isEmpty {
            // A run that is answered with "done" was settled before, as far as Redis knows.
            for isOurs in answers { record(isOurs ? "settled before" : "fenced settles") }
            if answers.contains(false) { try await expect(before, ends, "a fenced settle") }
            return
        }
        if ends.count > 1 { record("settled together") }
        for (index, end) in ends.enumerated() where areOurs[index] {
            if !answers[index] { ledger.recordViolation("\(end.claim.run.id): its own worker was fenced") }
            if end.settlement.keepsOffsets { ledger.recordCheckpoint(end.claim.run.id, reports[index]) }
            if let name = followers[index] {
                ledger.rejectedReplyLists.insert(name)
                record("followed")
            }
        }
        try await observe(.settle(ends.map { ($0.claim.run, $0.settlement) }))
        record("settles")
        if random.chance(10), let end = ends.first, areOurs[0], end.settlement.endsJob,
            ledger.jobs[end.claim.run.id]?.isInternal == false
        {
            try await pushAtEnd(of: end.claim.run.id)
        }
        guard random.chance(6) else {
            let claims = reply.next.compactMap { if case .job(let claim) = $0 { claim } else { nil } }
            return try await begin(claims, index, worker)
        }
        // The reply is lost, with the claims in it. Other calls may come before the settle is sent again.
        record(next.isEmpty ? "settled twice" : "settled twice, with a lost claim")
        if random.chance(50) { try await reconnect(index) } else { workers[index].mayBeOutOfSync = true }
        let after = try await traces(of: ends)
        let again = try await queue.settle(runEnds, worker: worker, next: []).isOurs.map { try $0.get() }
        for (index, end) in ends.enumerated() where again[index] != areOurs[index] && end.settlement.leavesHash {
            if areOurs[index], ledger.remembers(end.claim.run.id) {
                ledger.recordViolation("\(end.claim.run.id): a settle sent again was refused")
            }
        }
        try await expect(after, ends, "a settle sent again")
    }

    /// A step that gets a reply as soon as it is claimed, because its element is rejected.
    private static func step(_ name: String) -> NextSteps {
        NextSteps(ids: [name], elements: [#"{"url":"ftp://h/","reply_to":"\#(name)"}"#])
    }

    private func traces(of ends: [(claim: Claim, settlement: Settlement)]) async throws -> [[String]] {
        var result: [[String]] = []
        for end in ends { result.append(try await traces(of: end.claim.run.id)) }
        return result
    }

    private mutating func expect(
        _ before: [[String]], _ ends: [(claim: Claim, settlement: Settlement)], _ what: String
    ) async throws {
        for (before, end) in zip(before, ends) { try await expect(before, end.claim.run.id, what) }
    }

    mutating func report(of claim: Claim, chance: Int) -> RunReport {
        var report = RunReport()
        if random.chance(60) { report.set(isActive: random.chance(80), of: claim.run) }
        if random.chance(chance) {
            let start = Int64.random(in: 0...8, using: &random)
            report.set(
                ResumePoint(
                    generation: claim.run.token, store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9),
                    source: "u", offsets: ByteIntervals([start..<9])))
        }
        return report
    }
}

extension Settlement {
    fileprivate var keepsOffsets: Bool {
        switch self {
        case .completed, .responded, .cancelled, .rejected: false
        case .failed, .paused, .retry, .retryAfterProgress, .parked, .released: true
        }
    }

    fileprivate var leavesHash: Bool { if case .rejected = self { false } else { true } }
}
