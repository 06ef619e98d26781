package import HaulContract
package import HaulRedis

// Reads for lists and screens, in pages that each occupy Redis only briefly.

extension Queue {
    /// A page of running jobs: about `count` ids, and the cursor of the next page, "0" at the end. A job that runs all
    /// the time is returned at least once.
    package func scanRunning(
        from cursor: String, count: Int
    ) async throws(RedisError) -> (ids: [String], next: String) {
        guard partitions.isEmpty else {
            // The number of the partition, and the cursor in it.
            let parts = cursor.split(separator: "/")
            let number = parts.count > 1 ? Int(parts[0]) ?? 0 : 0
            let (ids, next) = try await partitions[number].scanRunning(
                from: String(parts.last ?? "0"), count: count)
            if next != "0" { return (ids, "\(number)/\(next)") }
            return (ids, number + 1 < partitions.count ? "\(number + 1)/0" : "0")
        }
        let reply = try await redis.send(Command("ZSCAN", keys.leases, cursor, "COUNT", count)).array ?? []
        let pairs = (reply.last?.array ?? []).compactMap(\.string)
        return (stride(from: 0, to: pairs.count, by: 2).map { pairs[$0] }, reply.first?.string ?? "0")
    }

    /// How many elements one call reads, at most 16 KiB each.
    package static let elementsOfPage = 200
}

extension QueueName {
    /// The queues of which a server, or all primaries of its cluster, have keys; whole queues instead of partitions.
    /// Reads with SCAN, at most `maxPages` pages for each server.
    package static func all(on redis: Redis, maxPages: Int = .max) async throws(RedisError) -> [QueueName] {
        var names: Set<QueueName> = []
        try await scan(redis, maxPages: maxPages) { tag, _ in if let name = QueueName(tag) { names.insert(name.whole) }
        }
        return names.sorted { $0.text < $1.text }
    }

    /// The keys of lists in which producers have put jobs for a queue of partitions that no worker looks into: that of the
    /// whole queue, and those of partitions that do not exist, such as `films#8of8`.
    func strayLists(on redis: Redis) async throws(RedisError) -> [String] {
        var keys: Set<String> = []
        try await Self.scan(redis) { tag, name in
            guard name == "jobs", tag.hasPrefix(base + "#"), QueueName(tag).map({ $0 == whole }) ?? true else { return }
            keys.insert("haul:{\(tag)}:jobs")
        }
        return keys.sorted()
    }

    /// Calls `body` for each key of a queue, with the queue's name and the rest of the key.
    private static func scan(
        _ redis: Redis, maxPages: Int = .max, _ body: (String, Substring) -> Void
    ) async throws(RedisError) {
        for server in try await redis.servers() {
            var cursor = "0"
            var pages = 0
            repeat {
                let scan = Command("SCAN", cursor, "MATCH", "haul:{*}:*", "COUNT", 1000)
                let reply = try await server.send(scan).array ?? []
                cursor = reply.first?.string ?? "0"
                for key in (reply.last?.array ?? []).compactMap(\.string) {
                    let tag = key.dropFirst(6).prefix { $0 != "}" }
                    body(String(tag), key[tag.endIndex...].dropFirst(2))
                }
                pages += 1
            } while cursor != "0" && pages < maxPages
            if server !== redis { await server.close() }
        }
    }
}

extension Queue {
    /// When the job that has been in its state for longest got there, unix ms, for states whose index is sorted by
    /// that. States without jobs are missing.
    package func oldest() async throws(RedisError) -> [JobState: Int64] {
        guard partitions.isEmpty else {
            let all = try await each { queue throws(RedisError) in try await queue.oldest() }
            return all.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: min) }
        }
        let states: [JobState] = [.paused, .completed, .failed, .cancelled]
        let calls = states.map { Call.command(Command("ZRANGE", keys.index($0), 0, 0, "WITHSCORES")) }
        var result: [JobState: Int64] = [:]
        for (state, reply) in zip(states, try await redis.pipeline(calls)) {
            result[state] = Int64(score: try reply.get().array?.last?.string)
        }
        return result
    }
}
