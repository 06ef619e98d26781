import HaulContract
package import HaulRedis

/// An event that the queue's stream has kept: docs/guides/durable-events.md.
package struct LoggedEvent: Sendable {
    /// The id of its entry: unix ms by Redis' clock, and a number.
    package let entry: String
    /// The job's id, or `batch/` and a name.
    package let id: String
    /// The event as it was published, without a large response.
    package let text: String

    /// A reply of XRANGE, and of XREAD for one stream.
    static func list(_ reply: RedisValue?) -> [LoggedEvent] {
        (reply?.array ?? []).compactMap { entry in
            guard let parts = entry.array, parts.count == 2, let name = parts[0].string else { return nil }
            let fields = parts[1].dictionary
            guard let text = fields["data"] else { return nil }
            return LoggedEvent(entry: name, id: fields["id"] ?? "", text: text)
        }
    }
}

extension Queue {
    /// How many events the queue's stream is to keep; nil if it keeps none.
    package func eventStream() async throws(RedisError) -> Int? {
        let text = try await redis.send(Command("HGET", keys.settings, QueueSetting.eventStream.name)).string
        return text.flatMap { QueueSetting.eventStream.accepts($0) ? Int($0) : nil }.flatMap { $0 > 0 ? $0 : nil }
    }

    /// The oldest kept events behind an entry, at most `limit`.
    ///
    /// - Parameter start: As XRANGE takes it: `-`, unix ms, or `(` and an entry.
    package func loggedEvents(from start: String, limit: Int = 500) async throws(RedisError) -> [LoggedEvent] {
        LoggedEvent.list(try await redis.send(Command("XRANGE", keys.log, start, "+", "COUNT", limit)))
    }

    /// The kept events of a job, oldest first. Only the newest entries of the stream are searched.
    ///
    /// - Parameter time: Older entries are not searched, unix ms.
    package func loggedEvents(
        of id: String, since time: Int64, searching maxEntries: Int = 20_000
    ) async throws(RedisError) -> [LoggedEvent] {
        var (end, found, searched) = ("+", [LoggedEvent](), 0)
        while searched < maxEntries {
            let reply = try await redis.send(Command("XREVRANGE", keys.log, end, time, "COUNT", 500))
            let page = LoggedEvent.list(reply)
            found += page.filter { $0.id == id }
            searched += page.count
            guard let last = page.last?.entry, page.count == 500 else { break }
            end = "(" + last
        }
        return found.reversed()
    }

    /// Waits for events behind an entry.
    ///
    /// - Parameter waiter: A client that is used for nothing else, because the call blocks its connection.
    package func nextLoggedEvents(
        after entry: String, block: Duration, on waiter: Redis
    ) async throws(RedisError) -> [LoggedEvent] {
        let command = Command("XREAD", "COUNT", 500, "BLOCK", block.milliseconds, "STREAMS", keys.log, entry)
        let reply = try await waiter.pipeline([.command(command)], blocking: block)[0].get()
        return LoggedEvent.list(reply.array?.first?.array?.last)
    }
}
