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

    /// The two numbers of its entry, by which entries are in order.
    package var position: (Int64, Int64) {
        let parts = entry.split(separator: "-").map { Int64($0) ?? 0 }
        return (parts.first ?? 0, parts.last ?? 0)
    }

    /// When it was published by its own account, unix ms. Its entry is added after that, which on a busy machine can be a
    /// later millisecond.
    package var time: Int64 { (try? JSON(text))?["at"]?.integer ?? position.0 }

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
        guard partitions.isEmpty else { return try await partitions[0].eventStream() }
        return try await redis.send(Command("HGET", keys.settings, QueueSetting.eventStream.name)).eventLimit
    }

    /// The time of the oldest kept event, unix ms, from which on the stream is whole; nil if it keeps none. Of partitions
    /// it is the latest of their times. A partition without an event has lost none.
    package func oldestLoggedEvent() async throws(RedisError) -> Int64? {
        guard partitions.isEmpty else {
            let times = try await each { queue throws(RedisError) in try await queue.oldestLoggedEvent() }
            return times.compactMap(\.self).max()
        }
        return try await loggedEvents(from: "-", limit: 1).first?.time
    }

    /// The last entry of the stream, or of those of the partitions in their order; nil of an empty one.
    package func lastLoggedEntries() async throws(RedisError) -> [String?] {
        guard partitions.isEmpty else {
            let all = try await each { queue throws(RedisError) in try await queue.lastLoggedEntries() }
            return Array(all.joined())
        }
        let reply = try await redis.send(Command("XREVRANGE", keys.log, "+", "-", "COUNT", 1))
        return [reply.array?.first?.array?.first?.string]
    }

    /// The oldest kept events behind an entry, at most `limit`. `EventLogReader` reads those of partitions.
    ///
    /// - Parameter start: As XRANGE takes it: `-`, unix ms, or `(` and an entry.
    func loggedEvents(from start: String, limit: Int = 500) async throws(RedisError) -> [LoggedEvent] {
        LoggedEvent.list(try await redis.send(Command("XRANGE", keys.log, start, "+", "COUNT", limit)))
    }

    /// How many kept events of one job are read at once, and how many bytes they may have. Each has the job's `meta`, so
    /// that repeated pushes of one job could fill the memory of whoever asks for its events.
    private static let eventsOfJob = (count: 1000, bytes: 1 << 20)

    /// The newest kept events of a job, oldest first: at most 1000, and about 1 MiB. Only the newest entries of the stream
    /// are searched.
    ///
    /// - Parameter time: Older entries are not searched, unix ms.
    package func loggedEvents(
        of id: String, since time: Int64, searching maxEntries: Int = 20_000
    ) async throws(RedisError) -> [LoggedEvent] {
        try await newestLoggedEvents(of: id, since: time, searching: maxEntries).events
    }

    /// The same, and whether the stream may have older ones.
    package func newestLoggedEvents(
        of id: String, since time: Int64, searching maxEntries: Int = 20_000
    ) async throws(RedisError) -> (events: [LoggedEvent], hasMore: Bool) {
        guard partitions.isEmpty else {
            let all = try await each { queue throws(RedisError) in
                try await queue.newestLoggedEvents(of: id, since: time, searching: maxEntries)
            }
            let events = all.flatMap { $0.events }.sorted { $0.position < $1.position }
            return (events, all.contains { $0.hasMore })
        }
        var (end, found, searched, bytes) = ("+", [LoggedEvent](), 0, 0)
        while searched < maxEntries {
            let reply = try await redis.send(Command("XREVRANGE", keys.log, end, time, "COUNT", 500))
            let page = LoggedEvent.list(reply)
            for event in page where event.id == id {
                bytes += event.text.utf8.count
                guard found.count < Self.eventsOfJob.count, bytes <= Self.eventsOfJob.bytes else {
                    return (found.reversed(), true)
                }
                found.append(event)
            }
            searched += page.count
            guard let last = page.last?.entry, page.count == 500 else { return (found.reversed(), false) }
            end = "(" + last
        }
        return (found.reversed(), true)
    }
}

extension RedisValue {
    /// The value of the setting `event_stream`; nil without a stream.
    var eventLimit: Int? {
        string.flatMap { QueueSetting.eventStream.accepts($0) ? Int($0) : nil }.flatMap { $0 > 0 ? $0 : nil }
    }
}

/// Reads the events that a queue has kept, oldest first. The streams of partitions are joined by the times of their
/// entries.
package struct EventLogReader: Sendable {
    /// The stream of one partition.
    private struct Source {
        let queue: Queue
        let start: String
        var events: [LoggedEvent] = []
        var last: String?
        var isAtEnd = false
        /// It had no entry at the reader's beginning, so that none proves that no later one was dropped.
        var wasEmpty = false
        /// How many entries were read.
        var count = 0
    }

    private static let pageSize = 500
    private var sources: [Source]
    /// Whether entries behind the last one that was read may have been dropped before they were read.
    package private(set) var hasGap = false

    /// - Parameter start: As XRANGE takes it: `-`, or unix ms.
    package init(_ queue: Queue, from start: String) { sources = queue.parts.map { Source(queue: $0, start: start) } }

    /// - Parameter entries: The last entry of each stream, behind which it is read; nil if it had none.
    package init(_ queue: Queue, after entries: [String?]) {
        sources = zip(queue.parts, entries).map { part, entry in
            Source(queue: part, start: "-", last: entry, wasEmpty: entry == nil)
        }
    }

    /// Whether a stream that was empty at the beginning may have dropped events since.
    ///
    /// - Parameter limit: How many events each stream keeps at least; nil if none.
    package func mayHaveDropped(keeping limit: Int?) -> Bool {
        sources.contains { $0.wasEmpty && $0.count >= limit ?? 0 }
    }

    /// The streams, and the last entry that was read of each; nil if it has none.
    package var ends: [(queue: Queue, last: String?)] { sources.map { ($0.queue, $0.last) } }

    /// The next events; none at the end.
    package mutating func next() async throws(RedisError) -> [LoggedEvent] {
        var bound: (Int64, Int64)?
        for index in sources.indices {
            if sources[index].events.isEmpty, !sources[index].isAtEnd {
                // The last entry is read once more. If it is there, no later one was dropped.
                let last = sources[index].last
                var page = try await sources[index].queue.loggedEvents(
                    from: last ?? sources[index].start, limit: Self.pageSize + 1)
                sources[index].isAtEnd = page.count <= Self.pageSize
                if let last, page.first?.entry == last { page.removeFirst() } else if last != nil { hasGap = true }
                sources[index].count += page.count
                sources[index].events = page
                sources[index].last = page.last?.entry ?? last
            }
            // Nothing is known of a stream behind its last event that was read.
            if !sources[index].isAtEnd, let last = sources[index].events.last {
                bound = bound.map { $0 < last.position ? $0 : last.position } ?? last.position
            }
        }
        var events: [LoggedEvent] = []
        for index in sources.indices {
            let count = sources[index].events.prefix { event in bound.map { event.position <= $0 } ?? true }.count
            events += sources[index].events.prefix(count)
            sources[index].events.removeFirst(count)
        }
        return sources.count == 1 ? events : events.sorted { $0.position < $1.position }
    }
}
