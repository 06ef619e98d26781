import HaulBus
import HaulContract
import HaulRedis

/// Up to where a client has the events of a queue. Its text is the id with which the client comes back.
enum EventPosition: Equatable, Sendable {
    /// The time of an event that the client has, unix ms.
    case time(Int64)
    /// The last entry of the queue's stream, or of those of its partitions in their order; nil of an empty one.
    case entries([String?])

    /// Stands for the entry that an empty stream does not have. Redis gives none this id.
    private static let noEntry = "0-0"

    /// Reads an id; nil if it is not one of a queue with so many streams.
    init?(_ text: String, streams count: Int) {
        guard text.contains("-") else {
            guard text.utf8.count <= 15, let time = Self.number(text) else { return nil }
            self = .time(Int64(time))
            return
        }
        let entries = text.split(separator: ",", omittingEmptySubsequences: false)
        guard entries.count == count else { return nil }
        for entry in entries {
            let numbers = entry.split(separator: "-", omittingEmptySubsequences: false)
            guard numbers.count == 2, numbers.allSatisfy({ Self.number($0) != nil }) else { return nil }
        }
        self = .entries(entries.map { $0 == Self.noEntry ? nil : String($0) })
    }

    private static func number(_ text: some StringProtocol) -> UInt64? {
        text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? UInt64(text) : nil
    }

    var text: String {
        switch self {
        case .time(let time): String(time)
        case .entries(let entries): entries.map { $0 ?? Self.noEntry }.joined(separator: ",")
        }
    }

    /// The position behind the last entries of the streams.
    ///
    /// - Parameter isKeeping: Whether the queue keeps events now.
    static func behind(
        _ entries: [String?], of queue: Queue, isKeeping: Bool
    ) async throws(RedisError) -> EventPosition {
        guard !isKeeping, entries.contains(where: { $0 == nil }) else { return .entries(entries) }
        // No kept event has this time. So a client that comes back with it is told that events may be missing.
        let now = try await queue.time()
        return .time(now)
    }

    /// The position behind all events that the queue has kept.
    static func end(of queue: Queue) async throws(RedisError) -> EventPosition {
        let isKeeping = try await queue.eventStream() != nil
        let entries = try await queue.lastLoggedEntries()
        return try await behind(entries, of: queue, isKeeping: isKeeping)
    }
}

/// Reads the events that a queue has kept since a position, oldest first.
struct EventReplay {
    /// How far apart the events of two partitions may arrive that have the same time, in ms. Each partition has the clock
    /// and the subscription of its own server.
    private static let spread: Int64 = 2000

    private let queue: Queue
    private let start: EventPosition
    private var reader: EventLogReader
    /// The last entries of the streams before the first one was read. nil until they are known.
    private var ends: [String?]?
    /// Whether nothing behind the position was dropped before the first event was read.
    private var isWhole = true
    /// Whether the event was found whose time the position is. If the stream does not have it, a failover has lost it, and
    /// perhaps later ones.
    private var isStartThere = true
    private var limit: Int?

    /// The position behind the last event that was read, once there are no more.
    private(set) var end: EventPosition
    /// How many pages were read that have events.
    private(set) var pages = 0

    /// - Parameter start: Of a time the events of that millisecond are read once more, and of partitions those of `spread`
    ///   before it.
    init(_ queue: Queue, after start: EventPosition) {
        (self.queue, self.start, end) = (queue, start, start)
        switch start {
        case .entries(let entries):
            reader = EventLogReader(queue, after: entries)
            ends = entries
        case .time(let time):
            reader = EventLogReader(
                queue, from: String(queue.partitions.isEmpty ? time : max(0, time - Self.spread)))
            isStartThere = false
        }
    }

    /// The next events; none at the end. After an error the call may be repeated.
    mutating func next() async throws(RedisError) -> [LoggedEvent] {
        if ends == nil, case .time(let time) = start {
            let oldest = try await queue.oldestLoggedEvent()
            isWhole = oldest.map { $0 <= time } ?? false
            ends = try await queue.lastLoggedEntries()
        }
        let events = try await reader.next()
        guard events.isEmpty else {
            if case .time(let time) = start, !isStartThere { isStartThere = events.contains { $0.time == time } }
            pages += 1
            return events
        }
        limit = try await queue.eventStream()
        // Of a stream of which nothing was read the end is the one that it had before.
        let entries = zip(reader.ends, ends ?? []).map { stream, before in stream.last ?? before }
        end = try await EventPosition.behind(entries, of: queue, isKeeping: limit != nil)
        return []
    }

    /// Whether the queue keeps events, so that it has all that were published before the last one was read.
    var isKeeping: Bool { limit != nil }

    /// Whether events may be missing, because the queue no longer has them.
    var hasGap: Bool { !isWhole || !isStartThere || reader.hasGap || reader.mayHaveDropped(keeping: limit) }
}

/// The events that a stream has sent lately, by which it sends none of them twice.
struct SentEvents {
    /// The keys of the newest events, of which some thousand are kept.
    private struct Keys {
        private static let maxCount = 1000
        private var new: Set<Int> = []
        private var old: Set<Int> = []

        mutating func insert(_ key: Int) {
            if new.count >= Self.maxCount { (new, old) = ([], new) }
            new.insert(key)
        }

        func contains(_ key: Int) -> Bool { new.contains(key) || old.contains(key) }
    }

    private var live = Keys()
    private var kept = Keys()

    /// Records an event that was published. false if it was read from the queue's stream before.
    mutating func insert(published key: Int) -> Bool {
        guard !kept.contains(key) else { return false }
        live.insert(key)
        return true
    }

    /// Records an event of the queue's stream. false if it was sent when it was published.
    mutating func insert(kept key: Int) -> Bool {
        guard !live.contains(key) else { return false }
        kept.insert(key)
        return true
    }

    /// Names an event. What is kept of an event may lack the response.
    static func key(_ event: JSON, _ text: String) -> Int {
        var hasher = Hasher()
        if let seq = event["seq"]?.integer {
            hasher.combine(event["id"]?.string ?? event["batch"]?.string)
            hasher.combine(event["event"]?.string)
            hasher.combine(event["epoch"]?.integer)
            hasher.combine(seq)
        } else {
            hasher.combine(text)
        }
        return hasher.finalize()
    }
}
