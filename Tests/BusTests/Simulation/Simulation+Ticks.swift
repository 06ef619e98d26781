import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

// Ticks, and what may happen between the calls of a tick.

extension Simulation {
    mutating func tick() async throws {
        guard let index = pick() else { return }
        try await tick(index)
        guard random.chance(20) else { return }
        // There are no replicas, so no confirmation is required.
        if case .announced = try await queue.announceReplicated(to: 0, within: .zero, on: redis) {
            record("announced later")
        }
    }

    mutating func tick(_ index: Int) async throws {
        if workers[index].mayBeOutOfSync { try await reconnect(index) }
        try await pushLate(by: index)
        let reports = workers[index].runs.map { ($0.run, report(of: $0, chance: 20)) }
        if let zombie = workers[index].runs.first(where: { !ledger.holds($0.run) }) {
            try await tickAsZombie(index, zombie, reports)
        }
        var reply = try await send(index, reports, isInterrupted: true)
        if random.chance(5) {
            record("ticks sent twice")
            reply = try await send(index, reports)
        }
        let ours = workers[index].runs.filter { ledger.holds($0.run) }
        for _ in reply.fenced { record("fenced runs") }
        for claim in ours {
            let token = claim.run.token
            workers[index].reported[token] = reply.operations[token] ?? workers[index].reported[token]
        }
        workers[index].runs = ours
        for claim in ours { try await applyOperations(claim, index) }
    }

    /// Ends a run whose deadline has passed or that has received an operation. An operation may be obeyed later, so
    /// that the run ends by itself first.
    private mutating func applyOperations(_ claim: Claim, _ index: Int) async throws {
        if let deadline = claim.deadline, deadline < ledger.now {
            return try await finish(
                claim, of: index, as: .failed(Failure(.deadline, "m"), retryable: false, received: 0))
        }
        guard let operation = workers[index].reported[claim.run.token], random.chance(40) else { return }
        record("stopped")
        try await finish(claim, of: index, as: operation == .paused ? .paused : .cancelled)
    }

    /// Makes all calls of a tick. `isInterrupted`: other clients act between the calls.
    mutating func send(
        _ index: Int, _ reports: [(Run, RunReport)], _ scope: Tick.Scope = .queue, isInterrupted: Bool = false
    ) async throws -> TickReply {
        // A frozen worker is silent as well, but not gone.
        let deadWorkers = workers[index].silent.filter { dead.contains($0.process) }
        var tick = Tick(
            workers[index].identity, scope, runs: reports, deadWorkers: deadWorkers, maxRuns: isInterrupted ? 1 : 32)
        var isBegun = false
        while let step = tick.next() {
            if isBegun, isInterrupted { try await interrupt(index) }
            isBegun = true
            try await checkPendingOperations()
            if step.kind != .report { ledger.recordTick() }
            for (run, report) in step.runs where ledger.holds(run) {
                ledger.recordLease(of: run)
                ledger.recordReport(run, report)
                ledger.recordCheckpoint(run.id, report)
            }
            let isFullTick = step.kind == .tick(isLast: true)
            let overdue = isFullTick && scope == .queue ? try await overdueSchedules() : []
            let names = Set(workers.map(\.identity.name))
            // That it was silent for long enough is tested elsewhere.
            ledger.deadWorkers = isFullTick ? deadNames.union(deadWorkers.map(\.worker)).subtracting(names) : []
            _ = try await queue.step(&tick)
            try await observe(isFullTick ? .tick : .report)
            ledger.deadWorkers = []
            for (run, _) in step.runs { expect(tick.reply, of: run) }
            if isFullTick, !tick.reply.hasMoreWork { try await checkOverdue() }
            if isFullTick {
                expect(overdue, among: tick.reply.schedules)
                try await push(tick.reply.schedules, by: index)
            }
        }
        if scope == .queue { workers[index].silent = tick.reply.silent }
        if !deadWorkers.isEmpty { record("co-located workers missed") }
        return tick.reply
    }

    /// Checks what a reply says of a run that was reported: whether it is fenced, and which operation it gets.
    private mutating func expect(_ reply: TickReply, of run: Run) {
        let isFenced = reply.fenced.contains(run.token)
        if isFenced == ledger.holds(run) { ledger.recordViolation("\(run.id): it is wrong that fenced is \(isFenced)") }
        guard ledger.holds(run) else { return }
        let (reported, expected) = (reply.operations[run.token], ledger.jobs[run.id]!.want)
        if reported != expected?.kind {
            ledger.recordViolation(
                "\(run.id) received \(String(describing: reported)), and not \(String(describing: expected))")
        }
    }

    /// Lets something happen between two calls of a tick.
    private mutating func interrupt(_ index: Int) async throws {
        record("ticks interrupted")
        switch Int.random(in: 0..<5, using: &random) {
        case 0: try await advance(Int64.random(in: 0...400, using: &random))
        case 1: try await applyRandomOperation()
        case 2: try await push()
        default:
            let others = workers.indices.filter { $0 != index && !workers[$0].isFrozen && !workers[$0].mayBeOutOfSync }
            guard let other = others.randomElement(using: &random) else { return }
            _ = try await send(other, workers[other].runs.map { ($0.run, RunReport()) })
        }
    }

    /// Checks that a fenced worker's tick changes nothing of its job. Another tick at the same time first does what
    /// is due.
    private mutating func tickAsZombie(_ index: Int, _ zombie: Claim, _ reports: [(Run, RunReport)]) async throws {
        guard let other = workers.indices.first(where: { $0 != index && !workers[$0].mayBeOutOfSync }) else { return }
        repeat { _ = try await send(other, []) } while ledger.hasPendingOperations
        // The worker must not report dead co-located workers here, because their jobs would be requeued.
        workers[index].silent = []
        // The tick would also return elements that lost waits moved, so there must be none.
        guard try await redis.send(Command("KEYS", queue.keys.held("*"))).array?.isEmpty == true else { return }
        let before = try await traces(of: zombie.run.id)
        _ = try await send(index, reports.filter { $0.0 == zombie.run })
        try await expect(before, zombie.run.id, "a zombie's tick")
        record("ticks of zombies")
    }
}
