import Foundation
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Measures what calls cost a server in CPU time, so that other programs on the machine do not count.
struct CallMeter {
    /// With HAUL_EXACT_BOUNDS, for a quiet machine: all elements, the full states, and the bound itself. Otherwise a
    /// sample of the elements, smaller states, and six times the bound, because a busy machine makes each call slower.
    /// What is quadratic or unbounded exceeds it tenfold in the small states, too.
    static let isExact = ProcessInfo.processInfo.environment["HAUL_EXACT_BOUNDS"] != nil

    /// 2 ms, on a machine as fast as the one for which the bounds of the functions were chosen.
    let limit: Double
    private let f: QueueFixture
    private let overhead: Double

    init(_ f: QueueFixture) async throws {
        self.f = f
        let loop = Command("EVAL", "local n = 0 for i = 1, 100000 do n = n + i end return n", 0)
        var (reference, nothing) = (Double.infinity, Double.infinity)
        for _ in 0..<30 {
            reference = min(reference, try await Self.cost(f.redis) { try await f.redis.send(loop) })
            nothing = min(nothing, try await Self.cost(f.redis) {})
        }
        overhead = nothing
        // The loop took 750 µs there.
        limit = 2000 * max(1, (reference - nothing) / 750) * (Self.isExact ? 1 : 6)
    }

    /// The CPU time of the server for these calls, in µs.
    func cost(_ calls: () async throws -> Void) async throws -> Double {
        try await Self.cost(f.redis, calls) - overhead
    }

    private static func cost(_ redis: Redis, _ calls: () async throws -> Void) async throws -> Double {
        let before = try await time(redis)
        try await calls()
        return try await time(redis) - before
    }

    private static func time(_ redis: Redis) async throws -> Double {
        let text = try await redis.send(Command("INFO", "cpu")).string ?? ""
        return text.split(separator: "\r\n").reduce(0) { sum, line in
            let parts = line.split(separator: ":")
            guard parts.count == 2, parts[0].hasSuffix("_main_thread") else { return sum }
            return sum + (Double(parts[1]) ?? 0) * 1e6
        }
    }

    /// Claims until the queue is empty or `limit` calls were made. Returns what each call cost.
    func claimAll(limit: Int = .max) async throws -> [Double] {
        var costs: [Double] = []
        while costs.count < limit, try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 {
            costs.append(try await cost { _ = try await f.queue.claim(f.worker, token: Token.make()) })
        }
        return costs
    }

    /// Makes single calls of ticks until `isDone`. Returns what each call cost.
    func ticks(limit: Int, until isDone: () async throws -> Bool) async throws -> [Double] {
        var costs: [Double] = []
        while costs.count < limit, try await !isDone() {
            var tick = Tick(f.worker, runs: [])
            costs.append(try await cost { _ = try await f.queue.step(&tick) })
        }
        return costs
    }

    /// Checks what calls of one sort have cost. A few may cost more, because the machine's caches are shared.
    func expectShort(_ what: String, _ costs: [Double]) {
        let sorted = costs.sorted()
        let median = sorted.isEmpty ? 0 : sorted[sorted.count / 2]
        let high = sorted.isEmpty ? 0 : sorted[sorted.count * 9 / 10]
        print(
            "\(what): \(sorted.count) calls, median \(Int(median)) µs, 90 % below \(Int(high)) of \(Int(limit))")
        #expect(high <= limit, "\(what): 90 % of \(sorted.count) calls take up to \(high) µs of \(limit)")
    }
}
