package import HaulRedis
import Synchronization

extension Queue {
    /// What this process has stamped last: of two acts in one millisecond the later one has the later moment.
    private static let last = Mutex<Int64>(0)

    /// Now by Redis' clock, in unix ms: what producers and operators order their acts by. Those of this process are in order,
    /// and so are those of others where one follows upon the other.
    package func moment() async throws(RedisError) -> Int64 {
        let now = try await time()
        return Self.last.withLock { last in
            // Another server's clock may be behind by more: it is not ours to correct.
            last = now <= last && last - now < 1000 ? last + 1 : now
            return last
        }
    }

    /// What Redis' clock says, in unix ms.
    package func time() async throws(RedisError) -> Int64 {
        try Self.milliseconds(await redis.send(Command("TIME")))
    }

    /// Of a reply to TIME.
    static func milliseconds(_ reply: RedisValue) throws(RedisError) -> Int64 {
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].int, let microseconds = parts[1].int
        else { throw RedisError(.reply, "TIME answered \(reply)") }
        return Int64(seconds) * 1000 + Int64(microseconds) / 1000
    }
}
