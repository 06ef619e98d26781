import HaulContract
package import HaulRedis

/// What came of an attempt to tell of completed jobs.
package enum ReplicatedTelling: Sendable, Equatable {
    /// Nothing waits to be told.
    case nothing
    case told(Int)
    /// So many replicas answered, which are too few.
    case tooFew(Int)
}

extension Queue {
    private static let batch = 256

    /// Tells of completed jobs that were settled to be told later, if `count` replicas say within `wait` that they have them.
    ///
    /// `waiter` is a client of its own: WAIT holds up what comes behind it.
    package func tellReplicated(
        to count: Int, within wait: Duration, on waiter: Redis
    ) async throws(RedisError) -> ReplicatedTelling {
        let replies = try await waiter.pipeline(
            [
                .command(Command("ZRANGE", keys.untold, 0, Self.batch - 1)),
                // WAIT is for what its own connection wrote: this comes after all that these jobs are.
                .command(Command("PEXPIRE", keys.untold, 7 * 86_400_000)),
                .command(Command("WAIT", count, wait.milliseconds)),
            ], blocking: wait)
        let ids = (try replies[0].get().array ?? []).compactMap(\.string)
        _ = try replies[1].get()
        let acknowledged = try replies[2].get().int ?? 0
        if ids.isEmpty { return .nothing }
        guard acknowledged >= count else { return .tooFew(acknowledged) }
        try await redis.run(functions.tell, keys: keys.given(to: "-"), arguments: [Token.make()] + ids)
        return .told(ids.count)
    }
}
