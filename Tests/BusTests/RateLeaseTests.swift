import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// The fleet keeps a rate limit while workers die, freeze, join and lose replies, under a clock that the test
/// controls.
@Suite("Leases of a rate limit")
struct RateLeaseTests {
    @Test("the rates of many hosts are leased by several calls, so that none takes long") func many() async throws {
        let f = try await QueueFixture()
        for number in 0..<100 { try await f.queue.setLimit(of: "h\(number)", to: #"{"rate":1000}"#) }
        let requests = (0..<100).map { RateLeaseRequest("h\($0)", limit: 1000, inUse: 0, demand: .unlimited) }
        try await f.tick()
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        let leases = try await f.queue.leaseRates(f.worker, number: 1, requests)
        #expect(leases.count == 100 && leases.values.allSatisfy { $0.bytesPerSecond == 1000 })
        let stats = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
        #expect(stats.contains("cmdstat_fcall:calls=4,"), "\(stats)")
    }

    private final class Fleet {
        struct Worker {
            var identity: WorkerIdentity
            var number = 0
            var inUse: Int64 = 0
            /// nil if the worker wants as much as possible.
            var demand: Int64?
            var end: Int64 = 0
        }

        static let limit: Int64 = 1_000_000
        let server: RedisServer
        let redis: Redis
        let queue: Queue
        var workers: [Worker] = []
        var now: Int64 = 1_800_000_000_000
        private var names = 0

        /// The name of the limit, and the key of its rate leases.
        let limit: String
        let key: String

        init(_ limit: String = RateLeaseRequest.queueLimit) async throws {
            self.limit = limit
            key = "haul:{default}:" + (limit == RateLeaseRequest.queueLimit ? "rate_leases" : "rate_leases:\(limit)")
            server = try await RedisServer()
            redis = Redis(try RedisURL(server.url), name: "shares")
            queue = Queue(
                .default, redis: redis, policy: QueuePolicy(),
                functions: Functions(
                    clock: "return redis.call('GET', 'test:now')", server: "return redis.call('GET', 'test:run')"))
            try await redis.send(Command("SET", "test:run", Token.make()))
            if limit == RateLeaseRequest.queueLimit {
                try await queue.set(.rate, to: "\(Self.limit)")
            } else {
                try await queue.setLimit(of: limit, to: "{\"rate\":\(Self.limit)}")
            }
            try await pass(0)
        }

        func pass(_ milliseconds: Int64) async throws {
            now += milliseconds
            try await redis.send(Command("SET", "test:now", Int(now)))
        }

        func join(demand: Int64?) async throws {
            names += 1
            let identity = WorkerIdentity(name: "w\(names)", store: "s")
            _ = try await queue.register(identity, fields: [], known: [])
            workers.append(Worker(identity: identity, demand: demand))
        }

        /// The sum of what all may use now. The rate leases of dead workers count until they lapse.
        func total(_ dead: [Worker] = []) -> Int64 {
            (workers + dead).reduce(0) { $0 + ($1.end > now ? $1.inUse : 0) }
        }

        /// Asks for a rate lease, and once more if it has shrunk, as workers do. `isLost`: the reply is lost.
        func ask(_ index: Int, isLost: Bool = false) async throws {
            for _ in 0..<2 {
                workers[index].number += 1
                let worker = workers[index]
                _ = try await queue.tick(worker.identity, runs: [])
                let inUse = worker.end > now ? worker.inUse : 0
                let lease = try await queue.leaseRate(
                    worker.identity, worker.number, limit, inUse: inUse, worker.demand)
                guard let lease, !isLost else { return }
                workers[index].inUse = lease.bytesPerSecond
                workers[index].end = now + Int64(queue.policy.lease.milliseconds)
                if !lease.isBelowUse { return }
            }
        }

        func round() async throws {
            for index in workers.indices { try await ask(index) }
            try await pass(250)
        }
    }

    @Test(
        "each worker gets what it wants up to an equal part; the rest goes to others within two seconds",
        arguments: [RateLeaseRequest.queueLimit, "h:81"])
    func demand(_ limit: String) async throws {
        let fleet = try await Fleet(limit)
        for _ in 0..<4 { try await fleet.join(demand: nil) }
        for _ in 0..<8 { try await fleet.round() }
        #expect(fleet.workers.allSatisfy { $0.inUse == Fleet.limit / 4 }, "\(fleet.workers.map(\.inUse))")
        for index in 1...3 { fleet.workers[index].demand = 0 }
        for _ in 0..<4 { try await fleet.round() }
        #expect(fleet.workers[0].inUse > Fleet.limit * 9 / 10)
        // A worker that wants something again gets it as fast.
        fleet.workers[3].demand = Fleet.limit / 10
        fleet.workers[2].demand = nil
        for _ in 0..<4 { try await fleet.round() }
        #expect(fleet.workers[3].inUse >= Fleet.limit / 10)
        #expect(fleet.workers[2].inUse > Fleet.limit * 4 / 10)
        #expect(fleet.total() <= Fleet.limit)
    }

    @Test(
        "the rate leases never exceed the limit, through deaths, joins, lost replies and late requests",
        arguments: [RateLeaseRequest.queueLimit, "h"])
    func bound(_ limit: String) async throws {
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(state: seed)
        let fleet = try await Fleet(limit)
        for _ in 0..<3 { try await fleet.join(demand: nil) }
        var dead: [Fleet.Worker] = []
        var peak: Int64 = 0
        for _ in 0..<400 {
            let index = Int.random(in: 0..<fleet.workers.count, using: &random)
            switch Int.random(in: 0..<20, using: &random) {
            case 0 where fleet.workers.count > 1: dead.append(fleet.workers.remove(at: index))
            case 1 where fleet.workers.count < 6: try await fleet.join(demand: nil)
            case 2...4: fleet.workers[index].demand = Int64.random(in: 0...Fleet.limit, using: &random)
            case 5: fleet.workers[index].demand = nil
            case 6: try await fleet.ask(index, isLost: true)
            case 7:
                // An earlier request arrives late, with values that are out of date.
                let worker = fleet.workers[index]
                if worker.number > 0, worker.end > fleet.now {
                    #expect(
                        try await fleet.queue.leaseRate(
                            worker.identity, max(1, worker.number - 1), fleet.limit, inUse: 0, 0) == nil)
                }
            case 8: try await fleet.pass(Int64.random(in: 0...9000, using: &random))
            case 9...11: try await fleet.pass(Int64.random(in: 0...500, using: &random))
            default: try await fleet.ask(index)
            }
            peak = max(peak, fleet.total(dead))
            #expect(fleet.total(dead) <= Fleet.limit, "seed \(seed)")
        }
        #expect(peak > Fleet.limit / 2)
        // Every worker gets a fair rate lease, and the rate leases of dead workers come back.
        for index in fleet.workers.indices { fleet.workers[index].demand = nil }
        for _ in 0..<48 { try await fleet.round() }
        let fair = Fleet.limit / Int64(fleet.workers.count)
        #expect(fleet.workers.allSatisfy { abs($0.inUse - fair) <= 1 }, "seed \(seed): \(fleet.workers.map(\.inUse))")
        #expect(try await fleet.redis.send(Command("HLEN", fleet.key)).int == fleet.workers.count + 1)
    }

    @Test("after a failover that lost replies no rate lease grows before all are reported or have lapsed")
    func failover() async throws {
        let fleet = try await Fleet()
        try await fleet.join(demand: nil)
        try await fleet.join(demand: 0)
        for _ in 0..<4 { try await fleet.round() }
        // The replica does not know yet that the first rate lease shrank and the second one grew.
        let key = "haul:{default}:rate_leases"
        try await fleet.redis.send(Command("COPY", key, "test:replica"))
        fleet.workers[0].demand = 0
        fleet.workers[1].demand = nil
        for _ in 0..<4 { try await fleet.round() }
        #expect(fleet.workers[1].inUse > Fleet.limit * 9 / 10)
        try await fleet.redis.send(Command("COPY", "test:replica", key, "REPLACE"))
        try await fleet.redis.send(Command("SET", "test:run", Token.make()))
        fleet.workers[0].demand = nil
        for _ in 0..<40 {
            try await fleet.ask(0)
            #expect(fleet.total() <= Fleet.limit)
            try await fleet.pass(250)
            if fleet.now.isMultiple(of: 1000) { try await fleet.ask(1) }
        }
        for _ in 0..<4 { try await fleet.round() }
        #expect(fleet.workers.allSatisfy { $0.inUse == Fleet.limit / 2 }, "\(fleet.workers.map(\.inUse))")
    }

    @Test("a removed limit leaves no key, and a key of another type is replaced") func lifted() async throws {
        let fleet = try await Fleet()
        try await fleet.redis.send(Command("SET", "haul:{default}:rate_leases", "x"))
        try await fleet.join(demand: nil)
        try await fleet.round()
        #expect(fleet.workers[0].inUse == Fleet.limit)
        try await fleet.queue.leave(fleet.workers[0].identity)
        #expect(try await fleet.redis.send(Command("HKEYS", "haul:{default}:rate_leases")).array?.count == 1)
        try await fleet.queue.set(.rate, to: nil)
        #expect(
            try await fleet.queue.leaseRate(fleet.workers[0].identity, 9, fleet.limit, inUse: 0, nil) == nil)
        #expect(try await fleet.redis.send(Command("EXISTS", "haul:{default}:rate_leases")).int == 0)
    }

    @Test("a host's rate lease comes back when its worker leaves, or wants nothing of the host")
    func returned() async throws {
        let fleet = try await Fleet("h")
        try await fleet.join(demand: nil)
        try await fleet.round()
        // No other worker requests a lease for this host.
        #expect(fleet.workers[0].inUse == Fleet.limit)
        let worker = fleet.workers[0]
        let reply = try await fleet.queue.leaseRates(
            worker.identity, number: 99,
            [RateLeaseRequest("h", inUse: 0, demand: .nothing), RateLeaseRequest(inUse: 0, demand: .unlimited)])
        #expect(reply["h"]?.bytesPerSecond == 0 && reply[RateLeaseRequest.queueLimit] == nil)
        #expect(try await fleet.redis.send(Command("HKEYS", fleet.key)).array?.count == 1)
        fleet.workers[0].number = 99
        try await fleet.round()
        try await fleet.queue.leave(fleet.workers[0].identity)
        #expect(try await fleet.redis.send(Command("HKEYS", fleet.key)).array?.count == 1)
        try await fleet.queue.setLimit(of: "h", to: #"{"rate":"fast","connections":2}"#)
        #expect(try await fleet.queue.leaseRate(worker.identity, 100, "h", inUse: 0, nil) == nil)
        #expect(try await fleet.queue.hostRates().faults.first?.contains("h: rate must be bytes per second") == true)
    }

    @Test("a limit by the time of day is what the worker says, and a number is what is set")
    func timeOfDay() async throws {
        for name in [RateLeaseRequest.queueLimit, "h"] {
            let fleet = try await Fleet(name)
            try await fleet.join(demand: nil)
            func lease(_ number: Int, _ limit: Int64?) async throws -> Int64? {
                let request = RateLeaseRequest(name, limit: limit, inUse: 0, demand: .unlimited)
                let worker = fleet.workers[0].identity
                return try await fleet.queue.leaseRates(worker, number: number, [request])[name]?.bytesPerSecond
            }
            #expect(try await lease(1, 7_000) == Fleet.limit)
            if name == "h" {
                try await fleet.queue.setLimit(of: name, to: #"{"rate":"full 22:00-06:00, 2M"}"#)
            } else {
                try await fleet.queue.set(.rate, to: "full 22:00-06:00, 2M")
            }
            #expect(try await lease(2, 7_000) == 7_000)
            // By night there is no limit, and no lease.
            #expect(try await lease(3, nil) == nil)
            if name == "h" {
                try await fleet.queue.setLimit(of: name, to: nil)
            } else {
                try await fleet.queue.set(.rate, to: nil)
            }
            #expect(try await lease(4, 7_000) == nil)
        }
    }
}

extension Queue {
    /// Asks for one rate lease. `demand` is nil for as much as possible.
    func leaseRate(
        _ worker: WorkerIdentity, _ number: Int, _ name: String, inUse: Int64, _ demand: Int64?
    ) async throws(RedisError) -> RateLease? {
        let request = RateLeaseRequest(name, inUse: inUse, demand: demand.map { .bytesPerSecond($0) } ?? .unlimited)
        return try await leaseRates(worker, number: number, [request])[name]
    }
}
