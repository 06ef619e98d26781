package import HaulRedis
import Synchronization

extension Queue {
    /// The last timestamp that this process has returned. Of two calls within a millisecond, the later one gets a later
    /// timestamp.
    private static let last = Mutex<Int64>(0)

    /// The time by Redis' clock, unix ms, as the timestamp of a push or an operation. Timestamps of this process grow.
    /// Those of several processes are in order if one call begins after the other has ended.
    package func timestamp() async throws(RedisError) -> Int64 {
        let now = try await time()
        return Self.last.withLock { last in
            // If the clock is behind by a second or more, it is another server's. Its time is used as it is.
            last = now <= last && last - now < 1000 ? last + 1 : now
            return last
        }
    }

    /// The time by Redis' clock, unix ms.
    package func time() async throws(RedisError) -> Int64 {
        try Self.milliseconds(await redis.send(Command("TIME")))
    }

    /// Connects if there is no connection, and waits for a reply.
    package func ping() async throws(RedisError) { try await redis.send(Command("PING")) }

    /// Unix ms, from a reply to TIME.
    static func milliseconds(_ reply: RedisValue) throws(RedisError) -> Int64 {
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].int, let microseconds = parts[1].int
        else { throw RedisError(.reply, "TIME returned \(reply)") }
        return Int64(seconds) * 1000 + Int64(microseconds) / 1000
    }
}
