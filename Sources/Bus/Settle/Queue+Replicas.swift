import HaulContract
package import HaulRedis

/// The result of an attempt to publish events that wait for replicas.
package enum ReplicatedAnnouncing: Sendable, Equatable {
    /// No event waits.
    case nothing
    case announced(Int)
    /// Only so many replicas have confirmed, which is too few.
    case tooFew(Int)
}

extension Queue {
    private static let batch = 256

    /// Publishes `completed` for jobs that wait for replicas, if `count` replicas confirm within `wait` that they have
    /// the jobs.
    ///
    /// - Parameter waiter: A client that is used for nothing else, because WAIT blocks its connection.
    package func announceReplicated(
        to count: Int, within wait: Duration, on waiter: Redis
    ) async throws(RedisError) -> ReplicatedAnnouncing {
        let replies = try await waiter.pipeline(
            [
                .command(Command("ZRANGE", keys.unannounced, 0, Self.batch - 1, "WITHSCORES")),
                // WAIT covers only writes of its own connection. This write comes after all writes of these jobs, so
                // replicas that have it have those, too.
                .command(Command("PEXPIRE", keys.unannounced, 7 * 86_400_000)),
                .command(Command("WAIT", count, wait.milliseconds)),
            ], blocking: wait)
        // An id, and the time since which it waits. A job that has run again meanwhile waits since another time.
        let waiting = (try replies[0].get().array ?? []).compactMap(\.string)
        _ = try replies[1].get()
        let acknowledged = try replies[2].get().int ?? 0
        if waiting.isEmpty { return .nothing }
        guard acknowledged >= count else { return .tooFew(acknowledged) }
        var rest = waiting[...]
        while !rest.isEmpty {
            // Redis bounds by itself what one call does.
            let done = try await redis.run(
                functions.announce, keys: keys.functionKeys(for: "-"),
                arguments: [Token.make()] + policy.retention + Array(rest.prefix(64)))
            rest = rest.dropFirst(2 * max(1, done.string.flatMap { Int($0) } ?? 1))
        }
        return .announced(waiting.count / 2)
    }
}
