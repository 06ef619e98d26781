import HaulRedis

@testable import HaulBus

/// A copy of all keys at one point in time, with their times to live, in another database of the same server.
struct Snapshot {
    static let kept = 8

    let timestamp: Int64
    let database: Int
    private let ledger: Ledger

    init(_ ledger: Ledger, in database: Int, of redis: Redis) async throws {
        (timestamp, self.database, self.ledger) = (ledger.now, database, ledger)
        try await Self.copy(from: 0, to: database, of: redis)
    }

    /// Restores all keys, and returns the ledger of that time.
    func restore(_ redis: Redis) async throws -> Ledger {
        try await Self.copy(from: database, to: 0, of: redis)
        return ledger
    }

    private static func copy(from source: Int, to target: Int, of redis: Redis) async throws {
        let script = """
            redis.call('SELECT', ARGV[2])
            redis.call('FLUSHDB')
            redis.call('SELECT', ARGV[1])
            for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', ARGV[2]) end
            """
        try await redis.send(Command("EVAL", script, 0, source, target))
    }
}
