import HaulRedis
import HaulTestSupport

@testable import HaulBus

// Faults of workers and of Redis.

extension Simulation {
    mutating func startWorker(_ name: String? = nil) async throws {
        names += 1
        var identity = WorkerIdentity(name: name ?? "w\(names)", store: "s")
        // The workers are on two machines.
        (identity.hostIdentity, identity.process) = ("m\(names % 2)", "\(identity.instance) \(names) 1")
        guard try await queue.register(identity, fields: [], known: []) else { return record("names refused") }
        try await observe(.registration(worker: identity.name, known: [], isSuccessor: true))
        workers.append(Worker(identity: identity, life: await ProcessLife(of: identity, in: queue)))
        deadNames.remove(identity.name)
    }

    mutating func kill() async throws {
        guard let index = workers.indices.randomElement(using: &random) else { return }
        try await kill(index)
    }

    mutating func kill(_ index: Int) async throws {
        let dead = workers.remove(at: index)
        self.dead.insert(dead.identity.process)
        deadNames.insert(dead.identity.name)
        try await dead.life.end()
        record("kills")
        if random.chance(40) {
            // The worker is started again under the same name.
            try await advance(3001)
            try await startWorker(dead.identity.name)
        } else {
            if !dead.mayBeOutOfSync, random.chance(30) { try await moveElement(toHeldOf: dead.identity.name) }
            try await startWorker()
        }
    }

    /// The blocking wait of a lost connection, which the server still has, moves an element. No claim follows.
    func moveElement(toHeldOf name: String) async throws {
        try await redis.send(Command("LMOVE", queue.keys.jobs, queue.keys.held(name), "RIGHT", "LEFT"))
    }

    mutating func freeze() {
        guard let index = workers.indices.randomElement(using: &random) else { return }
        workers[index].isFrozen.toggle()
        if workers[index].isFrozen { record("freezes") }
    }

    /// A worker shuts down in order, and another one starts.
    mutating func shutDownWorker() async throws {
        guard let index = pick() else { return }
        if workers[index].mayBeOutOfSync { try await reconnect(index) }
        for claim in workers[index].runs { try await finish(claim, of: index, as: .released(why: "shutdown")) }
        let identity = workers.remove(at: index).identity
        try await queue.leave(identity)
        if random.chance(50) { try await moveElement(toHeldOf: identity.name) }
        try await startWorker()
        record("departures")
    }

    /// No worker makes a tick for a while, and all connections are lost. After a day the workers are forgotten.
    mutating func sleep() async throws {
        let seconds = [9, 70, 3700, 90_000].randomElement(using: &random)! as Int64
        try await advance(seconds * 1000)
        for index in workers.indices { workers[index].mayBeOutOfSync = true }
        if seconds > 86_400 {
            workers = []
            for id in ledger.ids { ledger.jobs[id]!.isInWorkerHash = false }
            let names = try await redis.send(Command("KEYS", queue.keys.worker("*"))).array ?? []
            for name in names.compactMap(\.string) { try await redis.send(Command("DEL", name)) }
        }
        snapshots = []
        while workers.count < 4 { try await startWorker() }
        record("sleeps")
    }

    // MARK: Rollbacks

    mutating func keepSnapshot() async throws {
        guard ledger.now - (snapshots.last?.timestamp ?? 0) >= 300 else { return }
        let database = (snapshots.last?.database ?? 0) % Snapshot.kept + 1
        snapshots = snapshots.suffix(Snapshot.kept - 1)
        snapshots.append(try await Snapshot(ledger, in: database, of: redis))
    }

    /// Redis loses the writes of its last one or two seconds. The workers keep what they know.
    mutating func rollBack() async throws {
        let ages = Int64(1000)...2500
        guard let last = snapshots.lastIndex(where: { ages.contains(ledger.now - $0.timestamp) }) else { return }
        try await checkStream()
        let lost = ledger
        ledger = try await snapshots[last].restore(redis)
        try await skipStream()
        ledger.returned(from: lost)
        snapshots.removeSubrange((last + 1)...)
        try await redis.send(Command("SET", Self.run, Token.make()))
        try await readLimits(afterLoss: true)
        // No server begins twice in one millisecond, because an epoch is the time when it began.
        try await advance(1)
        for index in workers.indices { workers[index].mayBeOutOfSync = true }
        record("rollbacks")
    }
}
