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

    private let queue: Queue
    /// Unix ms as long as no entry was read, and then the id of the last entry.
    package private(set) var position: String
    private var isBegun = false

    /// - Parameter position: Unix ms, of which 0 is the beginning of the stream, or the id of an entry that was read.
    package init(_ queue: Queue, after position: String) { (self.queue, self.position) = (queue, position) }

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
        let read: [any RedisArgument] = ["XREAD", "COUNT", Self.pageSize]
        let proof = isEntry ? Command("XRANGE", log, position, position) : Command("XRANGE", log, "-", "+", "COUNT", 1)
        let replies = try await waiter.pipeline(
            [
                .command(Command(arguments: read + wait + ["STREAMS", log, start])),
                .command(proof),
                .command(Command("HGET", queue.keys.settings, QueueSetting.eventStream.name)),
            ], blocking: block)
        let entries = try replies[0].get().array?.first?.array?.last
        let first = LoggedEvent.list(try replies[1].get()).first
        var page = Page(events: LoggedEvent.list(entries))
        page.isKeeping = replies[2].eventLimit != nil
        if isEntry {
            page.hasGap = first == nil
        } else if !isBegun, time > 0, let first {
            page.hasGap = first.time > time
        }
        isBegun = true
        if let last = entries?.array?.last?.array?.first?.string {
            position = last
        } else if isEntry, page.hasGap {
            let lost = Int64(position.prefix { $0 != "-" }) ?? 0
            position = String(max(0, lost - Self.lookBack))
        }
        return page
    }
}
