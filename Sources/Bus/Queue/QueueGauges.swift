import HaulContract
package import HaulRedis

/// What is measured of schedules and of the stream of events. nil stands for what an ACL forbids to read.
package struct QueueGauges: Sendable, Equatable {
    /// A group of consumers of the stream.
    package struct Consumers: Sendable, Equatable {
        /// How many events no consumer of the group has taken. nil if Redis does not know it, as after a group was set
        /// to a place in the middle of the stream, or before Redis 7.
        package var lag: Int?
        /// How many events were taken and not acknowledged.
        package var pending: Int
        /// The lag as a part of what the stream may keep; of partitions the largest one. Behind 1 a consumer misses
        /// events. nil if Redis knows the lag of no partition.
        package var lagRatio: Double?
    }

    package var schedules: Int?
    /// When the next run of a schedule is due, or was due, unix ms. nil without a schedule that is ever due.
    package var nextDue: Int64?
    package var keptEvents: Int?
    /// From when on all events are kept, unix ms. nil if there are none.
    package var oldestEvent: Int64?
    /// By the names of the groups.
    package var consumers: [String: Consumers] = [:]

    /// Joins those of the partitions of a queue.
    fileprivate init(joining parts: [QueueGauges]) {
        schedules = Self.sum(parts.map(\.schedules))
        nextDue = parts.compactMap(\.nextDue).min()
        keptEvents = Self.sum(parts.map(\.keptEvents))
        oldestEvent = parts.compactMap(\.oldestEvent).max()
        for part in parts {
            consumers.merge(part.consumers) {
                Consumers(
                    lag: Self.sum([$0.lag, $1.lag]), pending: $0.pending + $1.pending,
                    lagRatio: [$0.lagRatio, $1.lagRatio].compactMap(\.self).max())
            }
        }
    }

    /// nil if a part is not known.
    private static func sum(_ parts: [Int?]) -> Int? {
        parts.reduce(0) { sum, part in part.flatMap { part in sum.map { $0 + part } } }
    }

    /// - Parameter replies: To `reading(_:)`.
    fileprivate init(_ replies: [RedisValue]) {
        schedules = replies[0].int
        nextDue = Int64(score: replies[1].array?.last?.string)
        keptEvents = replies[2].int
        oldestEvent = LoggedEvent.list(replies[3]).first?.time
        let limit = replies[5].eventLimit
        for group in replies[4].array ?? [] {
            let members = group.members
            guard let name = members["name"]?.string else { continue }
            let lag = members["lag"]?.int
            let ratio = lag.flatMap { lag in limit.map { Double(lag) / Double($0) } }
            consumers[name] = Consumers(lag: lag, pending: members["pending"]?.int ?? 0, lagRatio: ratio)
        }
    }

    fileprivate static func reading(_ keys: Keys) -> [Call] {
        let due: [any RedisArgument] = ["(1", "(inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES"]
        return [
            Command("ZCARD", keys.scheduleDue),
            // A score of 1 and less is not the time of a run (Lua/tick/schedules.lua).
            Command(arguments: ["ZRANGE", keys.scheduleDue] + due),
            Command("XLEN", keys.log), Command("XRANGE", keys.log, "-", "+", "COUNT", 1),
            // An error without a stream.
            Command("XINFO", "GROUPS", keys.log), Command("HGET", keys.settings, QueueSetting.eventStream.name),
        ].map { .command($0) }
    }
}

extension Queue {
    /// Reads what is measured of schedules and of the stream of events, in one round trip.
    package func gauges() async throws(RedisError) -> QueueGauges {
        guard partitions.isEmpty else {
            return QueueGauges(joining: try await each { queue throws(RedisError) in try await queue.gauges() })
        }
        return QueueGauges(try await redis.pipeline(QueueGauges.reading(keys)))
    }
}
