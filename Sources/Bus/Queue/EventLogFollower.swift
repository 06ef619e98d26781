import HaulContract
package import HaulRedis

/// Reads the stream of a queue without partitions, or of one partition, from a position on, and says where it may have
/// missed events: docs/guides/durable-events.md.
///
/// The last entry that was read proves that no later one was dropped, because a stream drops its oldest entries first.
/// So each read asks for it once more, behind the new entries and in the same round trip.
package struct EventLogFollower: Sendable {
    /// What one read has found.
    package struct Page: Sendable {
        /// Events may be missing before these ones.
        package var hasGap = false
        package var events: [LoggedEvent] = []
        /// Whether the queue keeps events now.
        package var isKeeping = true
    }

    package static let pageSize = 500
    /// How far a reader goes back whose last entry was lost in a failover, in ms. The clock of the new primary may be
    /// behind that of the old one, and so may the ids of its entries.
    private static let lookBack: Int64 = 60_000

    /// How a reader that has no entry yet finds out whether events were dropped before it could read them.
    private enum Check {
        /// It begins with whatever the stream has.
        case none
        /// The stream was not empty. If its first entry is later than the position, older ones were dropped.
        case firstEntry
        /// The stream was empty. It has dropped nothing since if one page has all of it and it is not full.
        case count
    }

    private let queue: Queue
    /// Unix ms as long as no entry was read, and then the id of the last entry.
    package private(set) var position: String
    private var check: Check

    /// - Parameters:
    ///   - position: Unix ms, of which 0 is the beginning of the stream, or the id of an entry that was read.
    ///   - isStored: Whether the position is that of an earlier reader, which had read everything until then.
    package init(_ queue: Queue, after position: String, isStored: Bool = false) {
        (self.queue, self.position) = (queue, position)
        check = position != "0" ? .firstEntry : isStored ? .count : .none
    }

    private var isEntry: Bool { position.contains("-") }

    /// Reads the next events, at most `pageSize`. After an error nothing has changed, and the read may be repeated.
    ///
    /// - Parameters:
    ///   - block: For how long to wait if there is none.
    ///   - waiter: A client that is used for nothing else, because the call blocks its connection.
    package mutating func next(within block: Duration, on waiter: Redis) async throws(RedisError) -> Page {
        let (log, time) = (queue.keys.log, Int64(position) ?? 0)
        // XREAD begins behind the id that it gets.
        let start = isEntry ? position : time > 0 ? "\(time - 1)-\(UInt64.max)" : "0-0"
        let wait: [any RedisArgument] = block > .zero ? ["BLOCK", block.milliseconds] : []
        let arguments: [any RedisArgument] = ["XREAD", "COUNT", Self.pageSize] + wait + ["STREAMS", log, start]
        let read = Command(arguments: arguments)
        // The last entry is asked for after the read, which may wait. The first entry is asked for before it: an event
        // that comes meanwhile says nothing of those before it.
        let both =
            isEntry
            ? [read, Command("XRANGE", log, position, position)]
            : [Command("XRANGE", log, "-", "+", "COUNT", 1), read]
        let setting = Command("HGET", queue.keys.settings, QueueSetting.eventStream.name)
        let replies = try await waiter.pipeline((both + [setting]).map { .command($0) }, blocking: block)
        let entries = try replies[isEntry ? 0 : 1].get().array?.first?.array?.last
        let proof = LoggedEvent.list(try replies[isEntry ? 1 : 0].get()).first
        let limit = replies[2].eventLimit
        var page = Page(events: LoggedEvent.list(entries), isKeeping: limit != nil)
        if isEntry {
            page.hasGap = proof == nil
        } else {
            switch check {
            case .none: break
            case .firstEntry: page.hasGap = proof.map { $0.time > time } ?? false
            case .count: page.hasGap = page.events.count >= min(limit ?? 1, Self.pageSize)
            }
            check = proof == nil ? .count : .firstEntry
        }
        if let last = entries?.array?.last?.array?.first?.string {
            position = last
        } else if isEntry, page.hasGap {
            let lost = Int64(position.prefix { $0 != "-" }) ?? 0
            (position, check) = (String(max(0, lost - Self.lookBack)), .none)
        }
        return page
    }
}
