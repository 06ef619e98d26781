import HaulContract
package import HaulRedis

extension Inspection {
    /// The findings of a queue, or of all of its partitions, and what these do not agree about.
    package static func findings(of queue: Queue, repairing: Bool = false) async throws(RedisError) -> [Finding] {
        var findings: [Finding] = []
        for part in queue.parts { findings += try await Inspection(part).run(repairing: repairing) }
        guard !queue.partitions.isEmpty else { return findings }
        return try await findings + differences(of: queue) + otherNumbers(of: queue) + strayLists(of: queue)
    }

    /// Lists that a producer has taken for those of the queue.
    private static func strayLists(of queue: Queue) async throws(RedisError) -> [Finding] {
        let (first, last) = (queue.partitions[0].name, queue.partitions[queue.partitions.count - 1].name)
        return try await queue.name.strayLists(on: queue.redis).map { key in
            Finding(
                key, "no worker reads its jobs: the partitions of \(queue.name) are \(first) to \(last)",
                "correct the producer, push what LRANGE shows there with haul push, and delete the list")
        }
    }

    /// Settings, defaults and limits that are not the same in all partitions: a command was interrupted, or another client has
    /// written one partition by hand.
    private static func differences(of queue: Queue) async throws(RedisError) -> [Finding] {
        try await queue.differences().flatMap { difference in
            zip(queue.partitions, difference.values).dropFirst().filter { $1 != difference.values[0] }.map { part, _ in
                Finding(
                    part.keys.prefix + difference.hash,
                    "\(difference.name) is not the same as in \(queue.partitions[0].name)",
                    "haul queue set or unset with --queue '\(queue.name)' writes it to all partitions")
            }
        }
    }

    /// The same queue with another number of partitions, or with none. A producer or a worker has the wrong number, or the
    /// old partitions are not drained yet.
    private static func otherNumbers(of queue: Queue) async throws(RedisError) -> [Finding] {
        var findings: [Finding] = []
        for name in try await QueueName.all(on: queue.redis)
        where name.base == queue.name.base && name != queue.name.whole {
            let other = Queue(
                name, redis: Redis(queue.redis.url, name: queue.redis.name, patience: queue.redis.patience))
            let (stats, schedules): (QueueStats, Int)
            do throws(RedisError) {
                (stats, schedules) = (try await other.stats(), try await other.scheduleCount())
            } catch {
                await other.close()
                if error.code == .noPermission { continue }
                throw error
            }
            await other.close()
            let jobs = [JobState.queued, .scheduled, .running, .paused].reduce(0) { $0 + (stats.counts[$1] ?? 0) }
            guard stats.workers > 0 || jobs > 0 || schedules > 0 else { continue }
            let workers = stats.workers == 1 ? "1 worker serves it" : "\(stats.workers) workers serve it"
            findings.append(
                Finding(
                    "the queue \(name)",
                    "\(workers), and \(jobs) of its jobs have not ended, "
                        + (schedules == 0 ? "" : "with \(schedules == 1 ? "1 schedule" : "\(schedules) schedules"), ")
                        + "beside \(queue.name)",
                    "give all workers and producers the same number of partitions, and drain the other queue"
                        + (schedules == 0 ? "" : "; add its schedules to this one, and remove them there")))
        }
        return findings
    }
}
