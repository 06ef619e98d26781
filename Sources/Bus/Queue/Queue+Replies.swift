import HaulContract
package import HaulRedis

// Reply lists, for a consumer that loses no reply: docs/reference/events.md, "Replies".

extension Queue {
    /// For how long replies that were taken and not acknowledged are kept, in milliseconds.
    private static let keepTaken = 7 * 86_400_000

    /// Moves the oldest reply of a list to the list of the replies that were taken. nil if none comes within `wait`.
    ///
    /// - Parameter waiter: A client that is used for nothing else, because BLMOVE blocks its connection.
    package func takeReply(
        to name: String, within wait: Duration, on waiter: Redis
    ) async throws(RedisError) -> [UInt8]? {
        let seconds = String(max(0.01, wait.secondsValue))
        let replies = try await waiter.pipeline(
            [
                .command(Command("BLMOVE", keys.reply(name), keys.taken(name), "RIGHT", "LEFT", seconds)),
                .command(Command("PEXPIRE", keys.taken(name), Self.keepTaken)),
            ], blocking: wait)
        _ = try replies[1].get()
        return try replies[0].get().bytes
    }

    /// The replies that were taken and not acknowledged, oldest first.
    package func takenReplies(to name: String) async throws(RedisError) -> [[UInt8]] {
        try await redis.send(Command("LRANGE", keys.taken(name), 0, -1)).array?.reversed().compactMap(\.bytes) ?? []
    }

    /// Removes a reply from the list of those that were taken. It may be repeated.
    package func acknowledge(_ reply: [UInt8], to name: String) async throws(RedisError) {
        try await redis.send(Command("LREM", keys.taken(name), 1, reply))
    }
}
