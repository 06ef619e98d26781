import Contract
import Foundation
import Redis
import TestSupport
import Testing

@testable import Bus

/// Workers that die, freeze, wake as zombies and lose replies, and producers that repeat themselves, at random and in a
/// time of their own, on the product's scripts and a real Redis. Nothing may be lost, done twice, or undone.
///
/// `HAUL_SIMULATION_STEPS` and `HAUL_SIMULATION_SEED` make it longer, and repeat a run.
@Suite struct SimulationTests {
    @Test("whatever dies, and whenever, every job ends in one final state") func simulation() async throws {
        let environment = ProcessInfo.processInfo.environment
        let steps = environment["HAUL_SIMULATION_STEPS"].flatMap { Int($0) } ?? 4000
        let seed = environment["HAUL_SIMULATION_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...999_999)
        print("simulation: seed \(seed), \(steps) steps")
        var simulation = try await Simulation(seed: seed)
        try await simulation.run(steps: steps)
        try await simulation.drain()
        print("simulation: \(simulation.counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" })")
        #expect(simulation.wrong.isEmpty, "seed \(seed): \(simulation.wrong.prefix(10))")
    }
}

/// SplitMix64: the same run for the same seed.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

struct Simulation {
    private static let clock = "simulated:now"

    /// What may happen to a job, and so what must not.
    enum Nature: CaseIterable {
        /// Pushed again and again with the same `at`: it is done once.
        case repeated
        /// The same, and cancelled or paused once: no repeated push undoes that.
        case stopped
        /// Anything.
        case any
    }

    struct Known {
        let nature: Nature
        let element: String
        var completions = 0
        /// Its end must stay: completed, or stopped as was asked.
        var isSettled = false
        var isAsked = false
    }

    struct Worker {
        var identity: WorkerIdentity
        var runs: [Claim] = []
        var isFrozen = false
        var sinceTick = 0
    }

    private let server: RedisServer
    private let redis: Redis
    private let queue: Queue
    private var random: SeededGenerator
    private var now: Int64 = 1_800_000_000_000
    private var jobs: [String: Known] = [:]
    /// In the order of their pushes: a dictionary's order differs from run to run.
    private var ids: [String] = []
    private var workers: [Worker] = []
    private var names = 0
    private(set) var counts: [String: Int] = [:]
    private(set) var wrong: [String] = []

    init(seed: UInt64) async throws {
        random = SeededGenerator(state: seed)
        server = try await RedisServer()
        redis = Redis(try RedisURL(server.url), name: "simulation")
        var policy = QueuePolicy()
        policy.crashLimit = 1_000_000
        policy.keepCompleted = .seconds(3_000_000)
        policy.keepFailed = .seconds(3_000_000)
        policy.keepCancelled = .seconds(3_000_000)
        queue = Queue(
            .default, redis: redis, policy: policy,
            scripts: Scripts(clock: "return tonumber(redis.call('GET', '\(Self.clock)'))"))
        try await advance(0)
        for _ in 0..<4 { try await hire() }
    }

    private mutating func note(_ what: String) { counts[what, default: 0] += 1 }

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    private mutating func advance(_ milliseconds: Int64) async throws {
        now += milliseconds
        try await redis.send(Command("SET", Self.clock, Int(now)))
    }

    private mutating func hire(_ name: String? = nil) async throws {
        names += 1
        let identity = WorkerIdentity(name: name ?? "w\(names)", store: "s")
        guard try await queue.register(identity, fields: [], known: []) else { return note("name refused") }
        workers.append(Worker(identity: identity))
    }

    // MARK: Steps

    mutating func run(steps: Int) async throws {
        for step in 0..<steps {
            try await self.step()
            if step.isMultiple(of: 500) { try await inspect("step \(step)") }
        }
    }

    private mutating func step() async throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<14: try await push()
        case 14..<26: try await pushAgain()
        case 26..<32: try await request()
        case 32..<52: try await claim()
        case 52..<68: try await settle()
        case 68..<84: try await tick()
        case 84..<86: try await kill()
        case 86..<88: freeze()
        case 88..<90: try await setting()
        default: try await advance(Int64.random(in: 0...1500, using: &random))
        }
    }

    private mutating func push() async throws {
        let id = "j\(jobs.count)"
        let nature = Nature.allCases.randomElement(using: &random)!
        var element = #"{"url":"http://h/\#(id)","id":"\#(id)""#
        if nature != .any || chance(50) { element += #","at":\#(now)"# }
        if chance(15) { element += #","delay":\#(Int.random(in: 0...20, using: &random))"# }
        element += "}"
        ids.append(id)
        jobs[id] = Known(nature: nature, element: element)
        // Later than its `at`, as a clock that others have too would have it.
        try await advance(1)
        try await redis.send(Command("LPUSH", queue.keys.jobs, element))
        note("pushed")
    }

    private mutating func pushAgain() async throws {
        guard let id = ids.randomElement(using: &random), let job = jobs[id] else { return }
        var element = job.element
        if job.nature == .any, chance(50) { element = #"{"id":"\#(id)"}"# }
        try await redis.send(Command(chance(80) ? "LPUSH" : "RPUSH", queue.keys.jobs, element))
        note("pushed again")
    }

    private mutating func request() async throws {
        guard let id = ids.randomElement(using: &random), let job = jobs[id] else { return }
        var request = [Request.paused, .cancelled, .running].randomElement(using: &random)!
        switch job.nature {
        case .repeated: return
        case .stopped:
            guard !job.isAsked else { return }
            request = chance(50) ? .paused : .cancelled
        case .any: break
        }
        jobs[id]!.isAsked = true
        try await queue.request(request, of: [id])
        note("requests")
    }

    private mutating func setting() async throws {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: try await queue.setSetting("paused", to: "1")
        case 1: try await queue.setSetting("max_running", to: String(Int.random(in: 0...6, using: &random)))
        default:
            try await queue.setSetting("paused", to: nil)
            try await queue.setSetting("max_running", to: nil)
        }
    }

    private mutating func pick() -> Int? {
        workers.indices.filter { !workers[$0].isFrozen }.randomElement(using: &random)
    }

    private mutating func claim() async throws {
        guard let index = pick(), workers[index].runs.count < 3 else { return }
        let worker = workers[index].identity
        if chance(60) {
            try await redis.send(
                Command("LMOVE", queue.keys.jobs, queue.keys.held(worker.name), "RIGHT", "LEFT"))
            // It dies, or its connection does, before the claim.
            if chance(5) { return note("half claims") }
        }
        let reply = try await queue.claim(worker, token: Token.make())
        guard case .job(let claim) = reply else { return }
        try begun(claim)
        if chance(4) {
            // The reply is lost: on its new connection the worker says what it knows.
            note("claims unheard")
            return try await reconnect(index)
        }
        workers[index].runs.append(claim)
        note("claims")
    }

    /// A run of a job whose end was to stay is an end undone.
    private mutating func begun(_ claim: Claim) throws {
        if jobs[claim.run.id]?.isSettled == true { wrong.append("\(claim.run.id) ran again") }
    }

    private mutating func reconnect(_ index: Int) async throws {
        let worker = workers[index]
        _ = try await queue.register(worker.identity, fields: [], known: worker.runs.map(\.run.token))
    }

    private mutating func settle() async throws {
        guard let index = pick(), !workers[index].runs.isEmpty else { return }
        let place = Int.random(in: workers[index].runs.indices, using: &random)
        let claim = workers[index].runs.remove(at: place)
        let settlement: Settlement =
            switch Int.random(in: 0..<10, using: &random) {
            case 0: .failed(Failure(.http(404), "m"), retryable: false, received: 0)
            case 1: .retry(after: .seconds(Int64.random(in: 0...5, using: &random)), Failure(.connect, "m"))
            case 2: .parked(after: .seconds(2), reason: "disk")
            case 3: .released(why: "test")
            default:
                .completed(
                    CompletedFile(
                        file: "f", bytes: 3, store: "s", inode: 1, modified: 1, entity: Entity(), validated: 1),
                    seconds: 1, unchanged: false)
            }
        let isLost = chance(5)
        var times = isLost ? 2 : 1
        while times > 0 {
            times -= 1
            let next = chance(50) && !isLost ? Token.make() : nil
            let reply = try await queue.settle(
                claim.run, as: settlement, report: RunReport(), worker: workers[index].identity, next: next)
            if times == 0 || !isLost { try judge(claim, settlement, reply.isOurs) }
            if case .job(let next) = reply.next {
                try begun(next)
                workers[index].runs.append(next)
            }
        }
        if isLost { note("settled twice") }
    }

    private mutating func judge(_ claim: Claim, _ settlement: Settlement, _ isOurs: Bool) throws {
        guard isOurs else { return note("fenced settles") }
        note("settles")
        guard case .completed = settlement, let job = jobs[claim.run.id] else { return }
        jobs[claim.run.id]!.completions += 1
        if job.nature != .any { jobs[claim.run.id]!.isSettled = true }
        if job.nature == .repeated, job.completions > 0 { wrong.append("\(claim.run.id) was completed twice") }
    }

    private mutating func tick() async throws {
        guard let index = pick() else { return }
        var worker = workers[index]
        let reports = worker.runs.map { claim in
            var report = RunReport()
            if chance(20) {
                report.set(
                    ResumePoint(
                        generation: claim.run.token, store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9),
                        source: "u", offsets: ByteIntervals([0..<Int64.random(in: 1...9, using: &random)])))
            }
            return (claim.run, report)
        }
        let reply = try await queue.tick(worker.identity, fields: [], runs: reports)
        let fenced = worker.runs.filter { reply.fenced.contains($0.run.token) }
        for _ in fenced { note("fenced runs") }
        worker.runs.removeAll { reply.fenced.contains($0.run.token) }
        for claim in worker.runs {
            guard let request = reply.requests[claim.run.token] else { continue }
            worker.runs.removeAll { $0.run == claim.run }
            let settlement = request == .paused ? Settlement.paused : .cancelled
            let isOurs = try await queue.settle(
                claim.run, as: settlement, report: RunReport(), worker: worker.identity, next: nil
            ).isOurs
            if isOurs, jobs[claim.run.id]?.nature == .stopped {
                // What was asked has happened; repeated pushes are older than it.
                let state = try await queue.job(claim.run.id)?.state
                if state == .paused || state == .cancelled { jobs[claim.run.id]!.isSettled = true }
            }
            note("stopped")
        }
        workers[index].runs = worker.runs
    }

    private mutating func kill() async throws {
        guard workers.count > 1 || chance(50), let index = workers.indices.randomElement(using: &random) else { return }
        let dead = workers.remove(at: index)
        note("kills")
        if chance(40) {
            // Started again under the same name.
            try await advance(3001)
            try await hire(dead.identity.name)
        } else {
            try await hire()
        }
    }

    private mutating func freeze() {
        guard let index = workers.indices.randomElement(using: &random) else { return }
        workers[index].isFrozen.toggle()
        if workers[index].isFrozen { note("freezes") }
    }

    private mutating func inspect(_ when: String) async throws {
        for finding in try await Inspection(queue).run() {
            wrong.append("\(when): \(finding.subject) \(finding.problem)")
        }
    }

    // MARK: The end

    /// Opens the queue, wakes everybody, and works until nothing is left.
    mutating func drain() async throws {
        try await queue.setSetting("paused", to: nil)
        try await queue.setSetting("max_running", to: nil)
        for index in workers.indices { workers[index].isFrozen = false }
        var quiet = 0
        while quiet < 30 {
            try await advance(1000)
            var isBusy = false
            for _ in workers.indices {
                try await tick()
                try await claim()
                while let index = workers.indices.first(where: { !workers[$0].runs.isEmpty }) {
                    isBusy = true
                    let claim = workers[index].runs.removeLast()
                    let settled = try await queue.settle(
                        claim.run, as: QueueFixture.done, report: RunReport(), worker: workers[index].identity,
                        next: nil)
                    try judge(claim, QueueFixture.done, settled.isOurs)
                }
            }
            quiet = isBusy ? 0 : quiet + 1
        }
        try await inspect("end")
        for name in [queue.keys.jobs, queue.keys.want] {
            let kind = name == queue.keys.want ? "HLEN" : "LLEN"
            if try await redis.send(Command(kind, name)).int != 0 { wrong.append("\(name) is not empty") }
        }
        for (id, job) in jobs {
            let state = try await queue.job(id)?.state
            counts["\(state?.rawValue ?? "lost")", default: 0] += 1
            let isRight =
                switch (job.nature, state) {
                case (.repeated, .completed?), (.repeated, .failed?): true
                case (.stopped, .completed?), (.stopped, .failed?), (.stopped, .paused?), (.stopped, .cancelled?): true
                case (.any, .completed?), (.any, .failed?), (.any, .paused?), (.any, .cancelled?): true
                default: false
                }
            if !isRight { wrong.append("\(id) (\(job.nature)) is \(state?.rawValue ?? "lost")") }
        }
    }
}
