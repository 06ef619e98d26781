import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// A queue of four partitions on one server, under a clock that the test sets, or the real one.
struct PartitionFixture {
    static let dawn: Int64 = 1_800_000_000_000
    /// The `at` of all pushes: before any operation of a test, whose time is that of the real clock.
    static let pushed: Int64 = 1_700_000_000_000
    private static let clock = "simulated:now"

    let server: RedisServer
    let redis: Redis
    let queue: Queue

    init(isClocked: Bool = true) async throws {
        server = try await RedisServer()
        redis = Redis(try RedisURL(server.url), name: "test")
        var policy = QueuePolicy()
        policy.crashLimit = 1000
        queue = Queue(
            QueueName("films#4")!, redis: redis, policy: policy,
            functions: isClocked ? Functions(clock: "return redis.call('GET', '\(Self.clock)')") : .product)
        try await set(0)
    }

    func set(_ milliseconds: Int64) async throws {
        try await redis.send(Command("SET", Self.clock, Int(Self.dawn + milliseconds)))
    }

    /// A worker that is registered in all partitions.
    func hire(_ name: String) async throws -> WorkerIdentity {
        let worker = WorkerIdentity(name: name, store: "s", instance: name)
        for partition in queue.partitions { _ = try await partition.register(worker, fields: [], known: []) }
        return worker
    }

    func push(_ id: String, batch: String? = nil) async throws {
        let member = batch.map { #","batch":{"name":"\#($0)"}"# } ?? ""
        let text = #"{"url":"http://h/\#(id)","id":"\#(id)","at":\#(Self.pushed)\#(member)}"#
        try await queue.push([try Element(JSON(text))])
    }

    /// Claims one job, in any partition.
    func claim(_ worker: WorkerIdentity) async throws -> (partition: Int, claim: Claim)? {
        for (number, partition) in queue.partitions.enumerated() {
            if case .job(let claim) = try await partition.claim(worker, token: Token.make()) { return (number, claim) }
        }
        return nil
    }

    /// Claims and completes jobs until there are none.
    func completeAll(_ worker: WorkerIdentity) async throws {
        // A claim that finds an element without a run returns no job.
        while try await queue.count(in: .queued) > 0 {
            guard let (number, claim) = try await claim(worker) else { continue }
            try await queue.partitions[number].settle(claim.run, as: QueueFixture.done, worker: worker)
        }
    }
}

@Suite struct PartitionNameTests {
    @Test("a number behind # makes a queue of partitions, and NofM one of these")
    func names() {
        let films = QueueName("films#8")
        #expect(films?.base == "films" && films?.partitionCount == 8 && films?.partition == nil)
        #expect(films?.partitions.map(\.text) == (0..<8).map { "films#\($0)of8" })
        let one = QueueName("films#3of8")
        #expect(one?.base == "films" && one?.partition == 3 && one?.partitions == [] && one?.whole == films)
        #expect(QueueName("films")?.partitionCount == nil && QueueName("films")?.whole.text == "films")
        #expect(QueueName("films#64") != nil && QueueName("films#2") != nil)
        for text in [
            "films#", "films#1", "films#0", "films#65", "films#08", "films#+8", "films#8of8", "films#of8", "films#3of",
            "films#-1of8", "films#03of8", "films#3of8of8", "#8", "films#8#8", "fi lms#8", "films#3of1",
        ] {
            #expect(QueueName(text) == nil, "\(text)")
        }
    }

    @Test("the partition of an id is the remainder of the checksum that gives a key its slot") func placement()
        async throws
    {
        #expect(QueueName.crc16("123456789") == 0x31c3)
        let server = try await RedisServer(["--cluster-enabled", "yes"])
        let films = QueueName("films#8")!
        for id in ["a", "a-film_1.mp4", "5f3a9c", "x:y", String(repeating: "z", count: 128)] {
            let slot = try #require(Int(try await server.cli("CLUSTER", "KEYSLOT", id)))
            #expect(films.partition(of: id) == slot % 8, "\(id)")
        }
    }
}

@Suite struct PartitionTests {
    /// What becomes of the jobs while workers die, freeze and wake as zombies, and pushes are repeated.
    @Test(
        "jobs in partitions are each done once, where they were placed, whatever dies",
        arguments: [1, 2, 3] as [UInt64])
    func simulation(seed: UInt64) async throws {
        let f = try await PartitionFixture()
        var random = SeededGenerator(state: seed)
        var now: Int64 = 0
        var workers: [(identity: WorkerIdentity, runs: [(partition: Int, claim: Claim)])] = []
        var zombies = workers
        var hired = 0
        var pushed: [(id: String, batch: String?)] = []
        var completed: [String: Int] = [:]
        func hire() async throws {
            hired += 1
            workers.append((try await f.hire("w\(hired)"), []))
        }
        func settle(_ run: (partition: Int, claim: Claim), _ worker: WorkerIdentity) async throws {
            let reply = try await f.queue.partitions[run.partition].settle(
                run.claim.run, as: QueueFixture.done, worker: worker)
            if reply.isOurs { completed[run.claim.run.id, default: 0] += 1 }
        }
        func tick(_ index: Int) async throws {
            for (number, partition) in f.queue.partitions.enumerated() {
                let own = workers[index].runs.filter { $0.partition == number }
                let reply = try await partition.tick(
                    workers[index].identity, runs: own.map { ($0.claim.run, RunReport()) })
                workers[index].runs.removeAll { reply.fenced.contains($0.claim.run.token) }
            }
        }
        for _ in 0..<3 { try await hire() }
        for _ in 0..<1200 {
            let index = Int.random(in: workers.indices, using: &random)
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<25:
                let number = pushed.count
                let batch = number.isMultiple(of: 3) ? "b\(number % 5)" : nil
                pushed.append(("j\(number)", batch))
                try await f.push("j\(number)", batch: batch)
            case 25..<32:
                if let (id, batch) = pushed.randomElement(using: &random) { try await f.push(id, batch: batch) }
            case 32..<58:
                if let found = try await f.claim(workers[index].identity) { workers[index].runs.append(found) }
            case 58..<78:
                if let run = workers[index].runs.popLast() { try await settle(run, workers[index].identity) }
            case 78..<80:
                zombies.append(workers.remove(at: index))
                try await hire()
            case 80..<83:
                if let zombie = zombies.popLast() {
                    for run in zombie.runs { try await settle(run, zombie.identity) }
                }
            case 83..<92: try await tick(index)
            default:
                now += Int64.random(in: 0...2500, using: &random)
                try await f.set(now)
            }
        }
        for _ in 0..<60 where completed.count < pushed.count {
            now += 1000
            try await f.set(now)
            for index in workers.indices {
                try await tick(index)
                while let run = workers[index].runs.popLast() { try await settle(run, workers[index].identity) }
                while let run = try await f.claim(workers[index].identity) {
                    try await settle(run, workers[index].identity)
                }
            }
        }
        #expect(pushed.count > 200 && hired > 5)
        for (id, batch) in pushed {
            #expect(completed[id] == 1, "seed \(seed): \(id)")
            let place = f.queue.name.partition(of: batch ?? id)
            for (number, partition) in f.queue.partitions.enumerated() {
                let state = try await partition.job(id)?.state
                #expect(state == (number == place ? .completed : nil), "seed \(seed): \(id) in \(partition.name)")
            }
        }
        for name in Set(pushed.compactMap(\.batch)) {
            let count = pushed.count { $0.batch == name }
            #expect(try await f.queue.batch(name)?.counts[.completed] == count, "seed \(seed): \(name)")
        }
        let findings = try await Inspection.findings(of: f.queue)
        #expect(findings.isEmpty, "seed \(seed): \(findings.map { "\($0.subject): \($0.problem)" })")
    }

    @Test("the functions treat a partition like any queue") func ordinary() async throws {
        var simulation = try await Simulation(seed: 7, name: QueueName("films#3of8")!)
        try await simulation.run(steps: 600)
        try await simulation.drain()
        #expect(simulation.ledger.violations.isEmpty, "\(simulation.ledger.violations.prefix(10))")
    }

    @Test("lists of all partitions are in one order, from any position on") func lists() async throws {
        let f = try await PartitionFixture()
        let worker = try await f.hire("w")
        var expected: [String] = []
        for number in 0..<90 {
            // Some jobs end within the same millisecond.
            try await f.set(Int64(number / 3 * 10))
            try await f.push("j\(number)")
            try await f.completeAll(worker)
        }
        let scores = try await f.queue.each { queue throws(RedisError) in
            try await queue.listed(in: .completed, from: 0, limit: 100)
        }.joined().sorted { ($0.timestamp ?? 0, $0.id) < ($1.timestamp ?? 0, $1.id) }
        expected = scores.map(\.id)
        #expect(expected.count == 90 && Set(scores.map(\.timestamp)).count == 30)
        #expect(try await f.queue.count(in: .completed) == 90)
        for start in [0, 1, 6, 7, 8, 40, 63, 85, 90, 200] {
            let slice = Array(expected.dropFirst(start).prefix(7))
            #expect(try await f.queue.ids(in: .completed, from: start, limit: 7) == slice, "\(start)")
            let newest = Array(expected.reversed().dropFirst(start).prefix(7))
            #expect(try await f.queue.listed(in: .completed, from: start, limit: 7).map(\.id) == newest, "\(start)")
        }
        var (position, ids) = (IndexPosition(), [String]())
        while case let page = try await f.queue.listed(in: .completed, after: &position, until: nil, limit: 8),
            !page.isEmpty
        { ids += page.map(\.id) }
        #expect(ids.count == 90 && Set(ids) == Set(expected))
    }

    @Test("operations, settings and figures of all partitions are those of one queue") func whole() async throws {
        // Operations have the time of the real clock.
        let f = try await PartitionFixture(isClocked: false)
        let worker = try await f.hire("w")
        for number in 0..<20 { try await f.push("j\(number)") }
        // In the partition of its batch, where its id does not lead.
        let batch = (0..<100).map { "b\($0)" }.first {
            f.queue.name.partition(of: $0) != f.queue.name.partition(of: "member")
        }!
        try await f.push("member", batch: batch)
        #expect(try await f.queue.stats().counts[.queued] == 21)
        #expect(try await f.queue.waiting(for: "member")?.id == "member")
        let listed = try await f.queue.listed(in: .queued, from: 0, limit: 100).map(\.id)
        #expect(Set(listed) == Set((0..<20).map { "j\($0)" } + ["member"]))
        #expect(try await f.queue.stats().workers == 1)

        try await f.queue.set(.paused, to: "1")
        #expect(try await f.queue.startLimits().allSatisfy(\.isPaused))
        #expect(try await f.claim(worker) == nil)
        try await f.queue.set(.paused, to: nil)

        // No worker has seen the member, so the operation goes wherever it may be.
        try await f.queue.request(.cancelled, of: ["member", "j3", "unknown"])
        for partition in f.queue.partitions { try await partition.tick(worker, runs: []) }
        try await f.completeAll(worker)
        let states = try await f.queue.jobs(["member", "j3"]).map(\.state)
        #expect(states == [.cancelled, .cancelled])
        #expect(try await f.queue.jobs(["j3", "none", "member", "j4"]).map(\.id) == ["j3", "member", "j4"])
        #expect(try await f.queue.stats().counts[.completed] == 19)
        #expect(try await f.queue.batch(batch)?.counts[.cancelled] == 1)
        #expect(try await f.queue.jobs(ofURLs: ["http://h/j5"]).ids["http://h/j5"] == ["j5"])

        try await f.queue.request(.removed, of: ["member", "j4"])
        for partition in f.queue.partitions { try await partition.tick(worker, runs: []) }
        #expect(try await f.queue.job("member") == nil)
        let removed = try await f.queue.removed(["member": PartitionFixture.pushed, "j4": PartitionFixture.pushed])
        #expect(removed == ["j4", "member"])
    }

    @Test("a check reports partitions with other settings, and workers with another number") func check() async throws {
        let f = try await PartitionFixture()
        _ = try await f.hire("w")
        try await f.queue.set(.maxRunning, to: "5")
        #expect(try await Inspection.findings(of: f.queue).isEmpty)
        try await f.queue.partitions[2].set(.maxRunning, to: "7")
        let other = Queue(QueueName("films#3")!, redis: f.redis)
        try await other.push([try Element(JSON(#"{"url":"http://h/x"}"#))])
        let findings = try await Inspection.findings(of: f.queue).map { "\($0.subject): \($0.problem)" }
        #expect(
            findings == [
                "haul:{films#2of4}:settings: max_running is not the same as in films#0of4",
                "the queue films#3: 0 workers serve it, and 1 of its jobs have not ended, beside films#4",
            ], "\(findings)")
        #expect(try await QueueName.all(on: f.redis).map(\.text) == ["films#3", "films#4"])
    }

    @Test("a check reports lists of jobs that no worker reads, because the queue has no such partition") func stray()
        async throws
    {
        let f = try await PartitionFixture()
        for tag in ["films#4", "films#4of4", "films#00of4", "films", "films#1of4"] {
            try await f.redis.send(Command("LPUSH", "haul:{\(tag)}:jobs", #"{"url":"http://h/x"}"#))
        }
        let findings = try await Inspection.findings(of: f.queue)
        #expect(
            findings.filter { $0.problem.contains("no worker reads") }.map(\.subject) == [
                "haul:{films#00of4}:jobs", "haul:{films#4of4}:jobs", "haul:{films#4}:jobs",
            ])
    }

    @Test("an operation of a given time has the time of each partition's own server") func operationTimes() async throws
    {
        let f = try await PartitionFixture()
        let timestamps = Dictionary(uniqueKeysWithValues: f.queue.parts.indices.map { ($0, Int64(1_000 + $0)) })
        _ = try await f.queue.request(.removed, of: ["unknown"], at: timestamps)
        for (number, partition) in f.queue.partitions.enumerated() {
            let want = try await partition.redis.send(Command("HGET", partition.keys.want, "unknown")).string
            #expect(want == "removed \(1_000 + number)")
        }
        let all = try await f.queue.operationTimestamps()
        #expect(all.count == f.queue.partitions.count)
    }
}
