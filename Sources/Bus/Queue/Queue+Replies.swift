import HaulContract
package import HaulRedis

// Reply lists, for a consumer that loses no reply: docs/reference/events.md, "Replies".

extension Queue {
    /// For how long replies that were taken and not acknowledged are kept, in milliseconds.
    private static let keepTaken = 7 * 86_400_000

    /// Moves the oldest reply of a list to the list of the replies that were taken. nil if none comes within `wait`.
    ///
    /// - Parameter waiter: A client that is used for nothing else, because BLMOVE blocks its connection.
    func takeReply(
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

    /// Moves replies of all partitions, at least one unless none comes within about `wait`.
    ///
    /// - Parameter waiters: For each partition a client that is used for nothing else.
    package func takeReplies(
        to name: String, within wait: Duration, on waiters: [Redis]
    ) async throws(RedisError) -> [[UInt8]] {
        guard partitions.isEmpty else {
            // All waits end before a reply is delivered. So they are short, and the first of them does not wait.
            for wait in [.zero, min(wait, .milliseconds(250))] as [Duration] {
                let taken = try await each { queue throws(RedisError) in
                    var taken: [[UInt8]] = []
                    while taken.count < 100,
                        let reply = try await queue.takeReply(
                            to: name, within: taken.isEmpty ? wait : .zero, on: waiters[queue.name.partition ?? 0])
                    { taken.append(reply) }
                    return taken
                }
                if !taken.joined().isEmpty { return taken.flatMap(\.self) }
            }
            return []
        }
        return try await takeReply(to: name, within: wait, on: waiters[0]).map { [$0] } ?? []
    }

    /// The replies that were taken and not acknowledged, oldest first.
    package func takenReplies(to name: String) async throws(RedisError) -> [[UInt8]] {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.takenReplies(to: name) }.flatMap(\.self)
        }
        return try await redis.send(Command("LRANGE", keys.taken(name), 0, -1)).array?.reversed().compactMap(\.bytes)
            ?? []
    }

    /// Removes a reply from the list of those that were taken. It may be repeated.
    package func acknowledge(_ reply: [UInt8], to name: String) async throws(RedisError) {
        guard partitions.isEmpty else {
            _ = try await each { queue throws(RedisError) in try await queue.acknowledge(reply, to: name) }
            return
        }
        try await redis.send(Command("LREM", keys.taken(name), 1, reply))
    }
}
