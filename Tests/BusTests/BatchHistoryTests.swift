import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Random histories of a few jobs in a few batches. After each step a recount finds the same counts, each member counts
/// as the state of its job says, and each end of a batch was announced once.
@Suite("Histories of batches") struct BatchHistoryTests {
    @Test("in every history each member of a batch counts once, and each end is announced once")
    func history() async throws {
        let seed = UInt64.random(in: 0..<1_000_000)
        print("histories of batches: seed \(seed)")
        for run in 0..<4 {
            var history = try await BatchHistory(seed: seed &+ UInt64(run))
            for _ in 0..<400 where history.wrong.isEmpty { try await history.step() }
            #expect(
                history.wrong.isEmpty, "seed \(seed), run \(run): \(history.wrong) after \(history.steps.suffix(12))")
        }
    }
}

private struct BatchHistory {
    let f: QueueFixture
    var random: SeededGenerator
    var claims: [Claim] = []
    /// Runs that were settled, to be settled once more.
    var ended: [Claim] = []
    var steps: [String] = []
    var wrong: [String] = []

    private static let ids = ["1", "2", "3", "4", "5"]
    private static let batches = ["a", "b", "c"]

    init(seed: UInt64) async throws {
        random = SeededGenerator(state: seed)
        f = try await QueueFixture { $0.crashLimit = 1 }
    }

    mutating func step() async throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<28: try await push()
        case 28..<50: try await claim()
        case 50..<68: try await settle()
        case 68..<80: try await ask()
        case 80..<86: try await askBatch()
        case 86..<89: try await lose()
        default:
            steps.append("tick")
            try await f.tick(claims)
        }
        try await check()
    }

    private mutating func push() async throws {
        let id = Self.ids.randomElement(using: &random)!
        let name = Self.batches.randomElement(using: &random)!
        var members = #""id":"\#(id)","#
        members += random.chance(92) ? #""url":"http://h/\#(id)""# : #""url":"ftp://h/""#
        if random.chance(50) { members += #","at":\#(try await f.queue.timestamp(of: .operation))"# }
        if random.chance(10) { members += #","delay":0.05"# }
        if random.chance(5) { members += #","deadline":0.01"# }
        if random.chance(85) {
            members +=
                random.chance(50)
                ? #","batch":{"name":"\#(name)","size":2,"reply_to":"\#(name)"}"# : #","batch":"\#(name)""#
        }
        steps.append("push {\(members)}")
        try await f.push("{\(members)}")
    }

    private mutating func claim() async throws {
        guard let claim = try await f.claim() else { return }
        steps.append("claim \(claim.run.id)")
        claims.append(claim)
    }

    private mutating func settle() async throws {
        if random.chance(15), let claim = ended.randomElement(using: &random) {
            steps.append("settle \(claim.run.id) once more")
            try await f.settle(claim, QueueFixture.done)
            return
        }
        guard !claims.isEmpty else { return }
        let claim = claims.remove(at: Int.random(in: 0..<claims.count, using: &random))
        ended.append(claim)
        let settlements: [Settlement] = [
            QueueFixture.done, QueueFixture.done, .failed(Failure(.io, "m"), retryable: true, received: 0), .cancelled,
            .paused,
            .retry(after: .milliseconds(5), Failure(.io, "m")), .released(why: "test"),
            .rejected(reason: "url: is invalid", before: claim.before),
        ]
        let settlement = settlements.randomElement(using: &random)!
        steps.append("settle \(claim.run.id) as \(settlement)")
        try await f.settle(claim, settlement)
    }

    private mutating func ask() async throws {
        let operation = [ControlOperation.paused, .cancelled, .running, .running, .removed].randomElement(
            using: &random)!
        let id = Self.ids.randomElement(using: &random)!
        steps.append("\(operation) for \(id)")
        try await f.queue.request(operation, of: [id])
    }

    private mutating func askBatch() async throws {
        let operation = [BatchOperation.paused, .cancelled, .running, .running, .retried].randomElement(using: &random)!
        let name = Self.batches.randomElement(using: &random)!
        steps.append("\(operation) for the batch \(name)")
        try await f.queue.request(operation, ofBatch: name)
    }

    /// The worker registers again, and names none of its runs.
    private mutating func lose() async throws {
        steps.append("the worker comes back")
        _ = try await f.queue.register(f.worker, fields: [], known: [])
        claims = []
    }

    private mutating func check() async throws {
        let jobs = try await f.redis.pipeline(
            Self.ids.map { .command(Command("HMGET", f.queue.keys.job($0), "state", "batch")) }
        ).map { ($0.array ?? []).map(\.string) }
        for name in Self.batches {
            let record = try await f.queue.batch(name)
            let members = try await f.redis.send(Command("HGETALL", f.queue.keys.members(name))).dictionary
            for state in BatchState.allCases {
                let count = members.values.count { $0 == state.rawValue }
                if record?.counts[state] ?? 0 != count {
                    wrong.append("\(name): \(state) is \(record?.counts[state] ?? 0), not \(count)")
                }
            }
            for (id, job) in zip(Self.ids, jobs) {
                guard let state = job[0].flatMap(JobState.init),
                    job[1]?.split(separator: " ").contains(Substring(name)) == true
                else { continue }
                let right = state.isFinal ? state.rawValue : "pending"
                if members[id] != right {
                    wrong.append("\(name): \(id) counts as \(members[id] ?? "nothing"), and is \(state)")
                }
            }
            try await checkEnds(name, record)
        }
    }

    /// Checks the batch's reply list: each round comes once, and the last round is there if the batch has ended.
    private mutating func checkEnds(_ name: String, _ record: BatchRecord?) async throws {
        guard let record, !record.replyTo.isEmpty else { return }
        let list = try await f.redis.send(Command("LRANGE", f.queue.keys.reply(name), 0, -1)).array ?? []
        let events = list.reversed().compactMap { try? JSON($0.bytes ?? []) }.filter {
            $0["event"]?.string == "batch_ended"
        }
        let rounds = events.compactMap { $0["round"]?.integer }
        if rounds != Array(Set(rounds)).sorted() { wrong.append("\(name): rounds are \(rounds)") }
        let sequence = events.compactMap { $0["seq"]?.integer }
        if sequence != Array(Set(sequence)).sorted() { wrong.append("\(name): seq is \(sequence)") }
        let counts = record.counts
        let over = counts[.pending] == 0 && counts.values.reduce(0, +) >= record.size ?? .max
        if over != (record.finished != nil) {
            wrong.append("\(name): it is \(over ? "" : "not ")over, but the batch says otherwise")
        }
        if rounds.last ?? 0 > record.round || over && rounds.last != Int64(record.round) {
            wrong.append("\(name): there were \(record.round) rounds, and the events have \(rounds)")
        }
        if over, let last = events.last {
            for state in BatchState.allCases
            where state != .pending && last[state.rawValue]?.integer != Int64(counts[state]!) {
                wrong.append("\(name): the last event has another count of \(state)")
            }
        }
    }
}
