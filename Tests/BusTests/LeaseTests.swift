import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Leases of any length that a worker may choose, under a clock that the test controls.
@Suite struct LeaseTests {
    private static let clock = "lease:now"

    /// Two workers that tick as often as they should, and a Redis server that stalls.
    private struct Timeline {
        let f: QueueFixture
        let queue: Queue
        let interval: Int
        var now = 1_800_000_000_000
        /// When the next tick of each worker is due. The first worker has the job, the other one only ticks.
        var next: [Int]
        var workers = ["owner", "other"].map { WorkerIdentity(name: $0, store: "s") }
        var claim: Claim?

        init(_ f: QueueFixture, lease: Int, phase: Int) async throws {
            self.f = f
            var policy = QueuePolicy()
            policy.lease = .milliseconds(lease)
            queue = Queue(
                .default, redis: f.redis, policy: policy,
                functions: Functions(clock: "return redis.call('GET', '\(LeaseTests.clock)')"))
            interval = min(1000, lease / 4)
            next = [now, now + phase]
            try await f.redis.send(Command("FLUSHALL"))
            try await set(now)
            for worker in workers { _ = try await queue.register(worker, fields: [], known: []) }
            try await f.push(#"{"url":"http://h/1","id":"1"}"#)
            if case .job(let claim) = try await queue.claim(workers[0], token: Token.make()) { self.claim = claim }
        }

        mutating func set(_ timestamp: Int) async throws {
            now = timestamp
            try await f.redis.send(Command("SET", LeaseTests.clock, timestamp))
        }

        /// Makes a tick. Returns whether the owner was fenced.
        @discardableResult
        mutating func observe(_ index: Int) async throws -> Bool {
            var report = RunReport()
            report.set(isActive: true, of: claim!.run)
            let runs = index == 0 ? [(claim!.run, report)] : []
            next[index] = now + interval
            return try await !queue.tick(workers[index], fields: [], runs: runs).fenced.isEmpty
        }

        /// Lets time pass. Workers that are not `dead` tick when it is due. Returns whether the owner was fenced.
        mutating func go(on milliseconds: Int, dead: Int? = nil) async throws -> Bool {
            let end = now + milliseconds
            var isFenced = false
            while let index = next.indices.filter({ $0 != dead }).min(by: { next[$0] < next[$1] }), next[index] <= end {
                try await set(max(now, next[index]))
                if try await observe(index) { isFenced = true }
            }
            try await set(end)
            return isFenced
        }

        /// Redis does nothing for a while, and then executes the ticks that were due, the owner's last. Returns whether
        /// the owner was fenced.
        mutating func stall(_ milliseconds: Int) async throws -> Bool {
            try await set(now + milliseconds)
            var isFenced = false
            for index in [1, 0] where next[index] <= now {
                if try await observe(index) { isFenced = true }
                try await set(now + 20)
            }
            return isFenced
        }
    }

    @Test("stalls of Redis, however long and frequent, take no job from a live worker", arguments: [2, 3, 4, 8])
    func stalls(_ lease: Int) async throws {
        let f = try await QueueFixture()
        for phase in [0, 1, 120, 249, 480, 740, 990] {
            for stall in stride(from: 100, through: 4000, by: 300) {
                var timeline = try await Timeline(f, lease: lease * 1000, phase: phase)
                var isFenced = try await timeline.go(on: 1300 + phase / 2)
                for _ in 0..<3 {
                    if try await timeline.stall(stall) { isFenced = true }
                    if try await timeline.go(on: 370 + phase) { isFenced = true }
                }
                #expect(!isFenced, "phase \(phase), stalls of \(stall) ms")
            }
        }
    }

    @Test("the job of a worker that is gone is requeued, however short the lease", arguments: [2, 3, 4, 8])
    func gone(_ lease: Int) async throws {
        let f = try await QueueFixture()
        var timeline = try await Timeline(f, lease: lease * 1000, phase: 130)
        _ = try await timeline.go(on: 2000)
        _ = try await timeline.go(on: lease * 1000 + timeline.interval, dead: 0)
        #expect(try await f.queue.job("1")?.state == .queued)
        #expect(try await f.queue.job("1")?.integer("crashes") == 1)
    }
}
