import HaulContract
import HaulRedis

@testable import HaulBus

// Batches: the counts are those of a recount, and each member counts as the state of its job says.

extension Simulation {
    /// How many jobs in a row belong to one batch. Some of them are in no batch.
    static let batchSize = 10

    /// The batch of the job that is pushed now.
    func batchName() -> String { "b\(numbers / Self.batchSize)" }

    /// Checks the two newest batches, and one at random.
    mutating func checkBatches() async throws {
        let newest = numbers / Self.batchSize
        for number in Set([newest, newest - 1, Int.random(in: 0...newest, using: &random)]) where number >= 0 {
            try await checkBatch("b\(number)")
        }
    }

    private mutating func checkBatch(_ name: String) async throws {
        let members = try await redis.send(Command("HGETALL", queue.keys.members(name))).dictionary
        let record = try await queue.batch(name)
        for state in BatchState.allCases {
            let (reported, found) = (record?.counts[state] ?? 0, members.values.count { $0 == state.rawValue })
            if reported != found {
                ledger.recordViolation("\(name): the count of \(state) is \(reported), and \(found) members are")
            }
        }
        let ids = members.keys.sorted()
        let jobs = try await redis.pipeline(
            ids.map { .command(Command("HMGET", queue.keys.job($0), "state", "batch", "waiting")) })
        for (id, job) in zip(ids, jobs) {
            let values = (job.array ?? []).map(\.string)
            // A member that was forgotten keeps its count, and so does a member that restarted for other batches.
            guard values.count == 3, let state = values[0].flatMap(JobState.init),
                values[1]?.split(separator: " ").contains(Substring(name)) == true
            else { continue }
            let right = state.isFinal && values[2] != "replicas" ? state.rawValue : BatchState.pending.rawValue
            if members[id] != right {
                ledger.recordViolation("\(name): \(id) is \(state), and counts as \(members[id] ?? "")")
            }
        }
        guard let record else { return }
        let ended = record.counts.values.reduce(0, +)
        let hasEnded = record.counts[.pending] == 0 && ended >= record.size ?? .max
        if hasEnded != (record.finished != nil) {
            ledger.recordViolation("\(name): it has \(hasEnded ? "" : "not ")ended, but the batch says otherwise")
        }
    }

    /// Checks at the end that the last end of each batch was published, and without a rollback each end once.
    mutating func checkBatchEnds() async throws {
        let reported = events.rounds
        for number in 0...numbers / Self.batchSize {
            let name = "b\(number)"
            try await checkBatch(name)
            guard let record = try await queue.batch(name) else { continue }
            let rounds = reported[name] ?? []
            // Redis may have lost a later round that was published.
            if record.finished != nil, !rounds.contains(record.round) {
                ledger.recordViolation("\(name): round \(record.round) was not published, only \(rounds)")
            }
            if counts["rollbacks"] == nil, rounds != (0..<record.round).map({ $0 + 1 }) {
                ledger.recordViolation("\(name): there were \(record.round) rounds, and \(rounds) were published")
            }
            self.record(record.finished != nil ? "batches over" : "batches not over")
        }
    }
}
