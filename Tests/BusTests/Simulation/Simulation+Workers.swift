import Contract
import Redis

@testable import Bus

// Workers, and the replies that they do not hear.

extension Simulation {
    mutating func pick() -> Int? {
        workers.indices.filter { !workers[$0].isFrozen }.randomElement(using: &random)
    }

    // MARK: Claims

    mutating func claim() async throws {
        guard let index = pick(), workers[index].runs.count < 3 else { return }
        // On a new connection it registers before it waits.
        if workers[index].isInDoubt { try await reconnect(index) }
        if workers[index].isInDoubt { return }
        let worker = workers[index].identity
        if random.chance(60) {
            try await take(worker.name)
            // It dies, or its connection does, before the claim.
            if random.chance(5) { return note("half claims") }
        }
        let reply = try await queue.claim(worker, token: Token.make())
        try await look(.claim)
        guard case .job(let claim) = reply else { return }
        if random.chance(4) {
            note("claims unheard")
            return try await reconnect(index)
        }
        try await begin(claim, index)
    }

    private mutating func begin(_ claim: Claim, _ index: Int) async throws {
        note("claims")
        guard let story = ledger.stories[claim.run.id] else { return ledger.complain("\(claim.run.id): who is that?") }
        let offsets = claim.resume?.offsets ?? ByteIntervals()
        if offsets != story.checkpoint {
            ledger.complain(
                "\(claim.run.id) goes on from \(offsets.intervals), and not from \(story.checkpoint.intervals)")
        }
        workers[index].runs.append(claim)
        if story.isPoison {
            note("poisoned")
            try await kill(index)
        }
    }

    /// On a new connection the worker says what it knows, and perhaps twice.
    mutating func reconnect(_ index: Int) async throws {
        let worker = workers[index]
        workers[index].isInDoubt = false
        let known = worker.runs.map(\.run.token)
        for _ in 0..<(random.chance(20) ? 2 : 1) {
            guard try await queue.register(worker.identity, fields: [], known: known) else {
                // Another one has its name by now.
                workers[index].isInDoubt = true
                return note("names refused")
            }
            try await look(.registration(worker: worker.identity.name, known: Set(known)))
            let held = try await redis.send(Command("LLEN", queue.keys.held(worker.identity.name)))
            if held.int != 0 { ledger.complain("\(worker.identity.name) holds something after it registered") }
        }
    }

    // MARK: Settling

    mutating func settle() async throws {
        guard let index = pick(), let claim = workers[index].runs.randomElement(using: &random) else { return }
        let settlement: Settlement =
            switch Int.random(in: 0..<20, using: &random) {
            case 0, 1: .failed(Failure(.http(404), "m"), retryable: false, received: 0)
            case 2, 3: .retry(after: .seconds(Int64.random(in: 0...5, using: &random)), Failure(.connect, "m"))
            case 4: .parked(after: .seconds(2), reason: "disk")
            case 5, 6: .released(why: "test")
            case 7: .rejected(reason: "test")
            default: QueueFixture.done
            }
        try await finish(claim, of: index, as: settlement, goesOn: true)
    }

    /// Settles a run; perhaps the reply is lost, and it is settled again.
    mutating func finish(
        _ claim: Claim, of index: Int, as settlement: Settlement, goesOn: Bool = false
    ) async throws {
        workers[index].runs.removeAll { $0.run == claim.run }
        workers[index].told[claim.run.token] = nil
        let isOurs = ledger.holds(claim.run)
        let report = report(of: claim, chance: 30)
        let next = goesOn && !workers[index].isInDoubt && random.chance(50) ? Token.make() : nil
        if !isOurs, next == nil {
            let before = try await traces(of: claim.run.id)
            guard try await send(claim, settlement, report, index, next).isOurs else {
                note("fenced settles")
                return try await expect(before, claim.run.id, "a fenced settle")
            }
            // Sent again, as far as Redis knows.
            return note("settled before")
        }
        let reply = try await send(claim, settlement, report, index, next)
        if isOurs != reply.isOurs, isOurs { ledger.complain("\(claim.run.id): its own worker was fenced") }
        if isOurs, settlement.keepsOffsets { ledger.checkpointed(claim.run.id, report) }
        try await look(.settle(claim.run, settlement))
        note("settles")
        guard random.chance(6) else {
            if case .job(let next) = reply.next { try await begin(next, index) }
            return
        }
        // The reply is lost, with the claim in it. Others may go on before it is sent again.
        note(next == nil ? "settled twice" : "settled twice, with a lost claim")
        if random.chance(50) { try await reconnect(index) } else { workers[index].isInDoubt = true }
        let before = try await traces(of: claim.run.id)
        if try await send(claim, settlement, report, index, nil).isOurs != isOurs, settlement.leavesHash {
            if isOurs, ledger.remembers(claim.run.id) {
                ledger.complain("\(claim.run.id): a settle sent again was refused")
            }
        }
        try await expect(before, claim.run.id, "a settle sent again")
    }

    private func send(
        _ claim: Claim, _ settlement: Settlement, _ report: RunReport, _ index: Int, _ next: String?
    ) async throws -> (isOurs: Bool, next: ClaimReply?) {
        try await queue.settle(
            claim.run, as: settlement, report: report, worker: workers[index].identity, next: next)
    }

    private mutating func report(of claim: Claim, chance: Int) -> RunReport {
        var report = RunReport()
        if random.chance(chance) {
            let start = Int64.random(in: 0...8, using: &random)
            report.set(
                ResumePoint(
                    generation: claim.run.token, store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9),
                    source: "u", offsets: ByteIntervals([start..<9])))
        }
        return report
    }

    // MARK: Ticks

    mutating func tick() async throws {
        guard let index = pick() else { return }
        try await tick(index)
    }

    mutating func tick(_ index: Int) async throws {
        if workers[index].isInDoubt { try await reconnect(index) }
        let reports = workers[index].runs.map { ($0.run, report(of: $0, chance: 20)) }
        if let zombie = workers[index].runs.first(where: { !ledger.holds($0.run) }) {
            try await tickAsZombie(index, zombie, reports)
        }
        var reply = try await send(index, reports)
        if random.chance(5) {
            note("ticks sent twice")
            reply = try await send(index, reports)
        }
        let ours = workers[index].runs.filter { ledger.holds($0.run) }
        for claim in workers[index].runs where reply.fenced.contains(claim.run.token) == ledger.holds(claim.run) {
            ledger.complain("\(claim.run.id): fenced \(reply.fenced.contains(claim.run.token)), wrongly")
        }
        for _ in reply.fenced { note("fenced runs") }
        for claim in ours {
            let token = claim.run.token
            if reply.requests[token] != ledger.stories[claim.run.id]!.taken?.request {
                ledger.complain(
                    "\(claim.run.id) was told \(String(describing: reply.requests[token])), and not \(String(describing: ledger.stories[claim.run.id]!.taken))"
                )
            }
            workers[index].told[token] = reply.requests[token] ?? workers[index].told[token]
        }
        workers[index].runs = ours
        for claim in ours { try await obey(claim, index) }
    }

    /// Stops a run that was told to, or whose time is over: soon, or a little later, or it ends first.
    private mutating func obey(_ claim: Claim, _ index: Int) async throws {
        if let deadline = claim.deadline, deadline < ledger.now {
            return try await finish(
                claim, of: index, as: .failed(Failure(.deadline, "m"), retryable: false, received: 0))
        }
        guard let request = workers[index].told[claim.run.token], random.chance(40) else { return }
        note("stopped")
        try await finish(claim, of: index, as: request == .paused ? .paused : .cancelled)
    }

    private mutating func send(_ index: Int, _ reports: [(Run, RunReport)]) async throws -> TickReply {
        try await checkRequests()
        let requests = ledger.requests
        ledger.looked()
        for (run, report) in reports where ledger.holds(run) {
            ledger.extended(run)
            ledger.checkpointed(run.id, report)
        }
        let reply = try await queue.tick(workers[index].identity, fields: [], runs: reports)
        try await look(.tick(requests))
        try await checkOverdue()
        return reply
    }

    /// A fenced worker's tick changes nothing of its job, once another tick at the same moment has done what was due.
    private mutating func tickAsZombie(_ index: Int, _ zombie: Claim, _ reports: [(Run, RunReport)]) async throws {
        guard let other = workers.indices.first(where: { $0 != index && !workers[$0].isInDoubt }) else { return }
        repeat { _ = try await send(other, []) } while !ledger.requests.isEmpty
        let before = try await traces(of: zombie.run.id)
        _ = try await send(index, reports.filter { $0.0 == zombie.run })
        try await expect(before, zombie.run.id, "a zombie's tick")
        note("ticks of zombies")
    }
}

extension Settlement {
    fileprivate var keepsOffsets: Bool {
        switch self {
        case .completed, .cancelled, .rejected: false
        case .failed, .paused, .retry, .parked, .released: true
        }
    }

    fileprivate var leavesHash: Bool { if case .rejected = self { false } else { true } }
}
