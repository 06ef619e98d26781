import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

/// A queue whose clock the test sets, so that the times of operations lie in the past.
struct ClockedQueue {
    static let dawn: Int64 = 1_800_000_000_000
    private static let clock = "simulated:now"

    let f: QueueFixture
    let queue: Queue

    init() async throws {
        f = try await QueueFixture()
        queue = Queue(
            .default, redis: f.redis, policy: QueuePolicy(),
            functions: Functions(clock: "return redis.call('GET', '\(Self.clock)')"))
        try await set(0)
        _ = try await queue.register(f.worker, fields: [], known: [])
    }

    func set(_ milliseconds: Int64) async throws {
        try await f.redis.send(Command("SET", Self.clock, Int(Self.dawn + milliseconds)))
    }

    func now() async throws -> Int64 { Int64(try await f.redis.send(Command("GET", Self.clock)).int ?? 0) }

    func claim() async throws -> Claim? {
        if case .job(let claim) = try await queue.claim(f.worker, token: Token.make()) { return claim }
        return nil
    }
}
