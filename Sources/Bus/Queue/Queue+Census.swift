import HaulContract
package import HaulRedis

/// What a screen shows of a whole queue.
package struct QueueCensus: Sendable {
    /// Redis' clock, unix ms.
    package var now: Int64 = 0
    package var stats = QueueStats()
    /// How many jobs ended within the requested time.
    package var ended = 0
    /// At most 1000 workers, the longest silent ones first, and when each was seen last (unix ms).
    package var workers: [(name: String, seen: Int64)] = []
    /// The newest failures, newest first.
    package var failures: [ListedJob] = []
}

extension Queue {
    /// Reads the census. Its cost does not grow with the number of jobs.
    ///
    /// - Parameters:
    ///   - seconds: The time for `ended`.
    ///   - failures: How many failures are listed at most.
    package func census(within seconds: Int, failures: Int) async throws(RedisError) -> QueueCensus {
        guard partitions.isEmpty else {
            let parts = try await each { queue throws(RedisError) in
                try await queue.census(within: seconds, failures: failures)
            }
            return try await joined(parts, failures: failures)
        }
        var census = QueueCensus()
        census.stats = try await stats()
        census.now = census.stats.now
        let since = census.now - Int64(seconds) * 1000
        let ended: [JobState] = [.completed, .failed, .cancelled]
        let calls =
            ended.map { Call.command(Command("ZCOUNT", keys.index($0), since, "+inf")) } + [
                .command(Command("ZRANGE", keys.workers, 0, 999, "WITHSCORES")),
                .command(Command("ZRANGE", keys.index(.failed), 0, failures - 1, "REV", "WITHSCORES")),
            ]
        let replies = try await redis.pipeline(calls)
        for reply in replies.prefix(ended.count) { census.ended += try reply.get().int ?? 0 }
        census.workers = try replies[ended.count].get().scored.map { ($0.member, $0.score) }
        census.failures = try replies[ended.count + 1].get().scored.map {
            ListedJob(id: $0.member, timestamp: $0.score)
        }
        return census
    }

    private func joined(_ parts: [QueueCensus], failures: Int) async throws(RedisError) -> QueueCensus {
        var census = QueueCensus()
        census.stats = try await stats()
        census.now = census.stats.now
        census.ended = parts.reduce(0) { $0 + $1.ended }
        let seen = parts.flatMap(\.workers).reduce(into: [:]) { $0[$1.name] = max($0[$1.name] ?? 0, $1.seen) }
        census.workers = seen.map { (name: $0.key, seen: $0.value) }.sorted { ($0.seen, $0.name) < ($1.seen, $1.name) }
        let newest = parts.flatMap(\.failures).sorted { $0.timestamp ?? 0 > $1.timestamp ?? 0 }
        census.failures = Array(newest.prefix(failures))
        return census
    }

    /// What workers report about themselves, without their claims, in the order of `names`.
    package func workerFields(_ names: [String]) async throws(RedisError) -> [[String: String]] {
        guard partitions.isEmpty else {
            let all = try await each { queue throws(RedisError) in try await queue.workerFields(names) }
            let newest = all.flatMap { zip(names, $0).map { (name: $0, fields: $1) } }.newestOfEachWorker()
            let known = Dictionary(newest.map { ($0.name, $0.fields) }) { one, _ in one }
            return names.map { known[$0] ?? [:] }
        }
        let fields = ["host", "pid", "version", "slots", "running", "seen", "state", "lease"]
        let calls = names.map { Call.command(Command(arguments: ["HMGET", keys.worker($0)] + fields)) }
        var result: [[String: String]] = []
        for reply in try await redis.pipeline(calls) {
            let values = (try reply.get().array ?? []).map(\.string)
            result.append(Dictionary(zip(fields, values).compactMap { name, value in value.map { (name, $0) } }) { $1 })
        }
        return result
    }
}

extension RedisValue {
    /// The members of a sorted set whose scores are times.
    fileprivate var scored: [(member: String, score: Int64)] {
        let texts = (array ?? []).map { $0.string ?? "" }
        return stride(from: 0, to: texts.count - 1, by: 2).compactMap { index in
            Int64(score: texts[index + 1]).map { (texts[index], $0) }
        }
    }
}
