import HaulContract
package import HaulRedis

/// What happened to a queue's jobs in one minute.
package struct HistoryMinute: Sendable, Equatable {
    /// The beginning of the minute, unix ms.
    package let start: Int64
    /// By the names of events; `received` counts bytes. What did not happen is missing.
    package var counts: [String: Int64]

    package init(start: Int64, counts: [String: Int64]) { (self.start, self.counts) = (start, counts) }

    package subscript(name: String) -> Int64 { counts[name] ?? 0 }
}

extension Queue {
    /// For how many hours the history is kept.
    package static let historyHours = 48
    /// What is counted for each minute.
    package static let historyNames = [
        "completed", "failed", "cancelled", "retrying", "duplicate", "rejected", "received",
    ]

    /// How often each event was published since the queue began, by its name; `claimed`, claims; `lost`, jobs that were
    /// lost with their workers; `failed CODE`, failures by code; `received`, bytes.
    package func totals() async throws(RedisError) -> [String: Int64] {
        guard partitions.isEmpty else {
            let totals = try await each { queue throws(RedisError) in try await queue.totals() }
            return totals.reduce(into: [:]) { $0.merge($1) { $0 + $1 } }
        }
        return try await redis.send(Command("HGETALL", keys.totals)).dictionary.compactMapValues { Int64(field: $0) }
    }

    /// The minutes in which anything happened, oldest first. `span`: the hours that are read, each the unix time
    /// divided by 3600.
    package func history(of span: some Collection<Int64>) async throws(RedisError) -> [HistoryMinute] {
        guard !span.isEmpty else { return [] }
        guard partitions.isEmpty else {
            let span = Array(span)
            var minutes: [Int64: HistoryMinute] = [:]
            for minute in try await each({ queue throws(RedisError) in try await queue.history(of: span) }).joined() {
                minutes[minute.start, default: HistoryMinute(start: minute.start, counts: [:])].counts
                    .merge(minute.counts) { $0 + $1 }
            }
            return minutes.values.sorted { $0.start < $1.start }
        }
        let replies = try await redis.pipeline(span.map { .command(Command("HGETALL", keys.history(hour: $0))) })
        var minutes: [Int64: HistoryMinute] = [:]
        for (hour, reply) in zip(span, replies) {
            for (field, value) in try reply.get().dictionary {
                let words = field.split(separator: " ")
                guard words.count == 2, let minute = Int64(words[0]), (0..<60).contains(minute),
                    let count = Int64(field: value)
                else { continue }
                let start = (hour * 60 + minute) * 60_000
                minutes[start, default: HistoryMinute(start: start, counts: [:])].counts[String(words[1])] = count
            }
        }
        return minutes.values.sorted { $0.start < $1.start }
    }

    /// The minutes of the last two days in which anything happened, and the time by Redis' clock, unix ms.
    package func history() async throws(RedisError) -> (minutes: [HistoryMinute], now: Int64) {
        let now = try await time()
        let hours = Int64(Self.historyHours)
        let minutes = try await history(of: (now / 3_600_000 - hours)...(now / 3_600_000))
        return (minutes.filter { $0.start > now - hours * 3_600_000 }, now)
    }
}
