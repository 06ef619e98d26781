import HaulContract
package import HaulRedis

/// What a screen shows of a whole queue, read in one round trip.
package struct QueueCensus: Sendable {
    /// Redis' clock, unix ms.
    package var now: Int64 = 0
    package var stats = QueueStats()
    /// Jobs that ended within the last seconds that were asked for.
    package var ended = 0
    /// At most 1000 workers, those that were not heard of for the longest time first, with when they were seen (unix ms).
    package var workers: [(name: String, seen: Int64)] = []
    /// The newest failures, newest first.
    package var failures: [ListedJob] = []
}

extension Queue {
    /// Counts, and names that are few: what it costs does not grow with the number of jobs.
    package func census(within seconds: Int, failures: Int) async throws(RedisError) -> QueueCensus {
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
        census.failures = try replies[ended.count + 1].get().scored.map { ListedJob(id: $0.member, moment: $0.score) }
        return census
    }

    /// What workers say of themselves, without their claims, in the order of `names`.
    package func workerFields(_ names: [String]) async throws(RedisError) -> [[String: String]] {
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
    /// Members of a sorted set with their scores, which are times.
    fileprivate var scored: [(member: String, score: Int64)] {
        let texts = (array ?? []).map { $0.string ?? "" }
        return stride(from: 0, to: texts.count - 1, by: 2).compactMap { index in
            Double(texts[index + 1]).flatMap { Int64(exactly: $0) }.map { (texts[index], $0) }
        }
    }
}
