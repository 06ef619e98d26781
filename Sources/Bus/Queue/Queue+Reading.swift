package import HaulContract
package import HaulRedis

/// How many jobs are in each state, and what else describes a queue.
package struct QueueStats: Sendable {
    package var counts: [JobState: Int] = [:]
    package var rejected = 0
    package var isPaused = false
    /// In how many partitions it is paused.
    package var pausedPartitions = 0
    /// How many jobs wait in the partitions that are paused.
    package var queuedInPaused = 0
    /// The lowest one of the partitions.
    package var maxRunning: Int?
    /// How many jobs the partitions let run at once, together; nil if one has no limit.
    package var allowedRunning: Int64?
    /// How many partitions the queue has. Each has the limits of the settings for itself.
    package var partitions = 1
    /// Where the queued elements wait.
    package var waiting = WaitingLists()
    /// How many elements were deferred because the worker that claimed them does not do their kind, by kind.
    package var deferred: [String: Int] { waiting.kinds }
    /// Whether Redis has any key of the queue that jobs, workers or operators have written.
    package var isKnown = false
    /// How many workers ticked within the last `Queue.silence` seconds.
    package var workers = 0
    /// Redis' clock, unix ms.
    package var now: Int64 = 0
    /// When a worker last ticked, unix ms by Redis' clock; nil if none ever did.
    package var lastTick: Int64?
    /// Whether a pause has reached only some partitions. The same setting, made again, reaches all.
    package var isPartlyPaused: Bool { isPaused && pausedPartitions < partitions }
    /// Where the queue is paused, behind "paused" in a sentence; empty if it is paused as a whole.
    package var scopeOfPause: String { isPartlyPaused ? " in \(pausedPartitions) of \(partitions) partitions" : "" }
}

extension Queue {
    /// nil for a job that is not known.
    package func job(_ id: String) async throws(RedisError) -> JobRecord? {
        try await jobs([id]).first
    }

    /// The jobs of `ids` that are known.
    package func jobs(_ ids: [String]) async throws(RedisError) -> [JobRecord] {
        guard !ids.isEmpty else { return [] }
        guard partitions.isEmpty else {
            return try await find(ids) { queue, ids throws(RedisError) -> [JobRecord?] in
                let known = Dictionary(try await queue.jobs(ids).map { ($0.id, $0) }) { one, _ in one }
                return ids.map { known[$0] }
            }.compactMap { $0?.value }
        }
        let calls: [Call] = ids.flatMap {
            [.command(Command("HGETALL", keys.job($0))), .command(Command("HGETALL", keys.offsets($0)))]
        }
        let replies = try await redis.pipeline(calls)
        var known: [(id: String, state: JobState, fields: [String: String], offsets: ByteIntervals)] = []
        for (index, id) in ids.enumerated() {
            let fields = try replies[index * 2].get().dictionary
            guard let state = fields["state"].flatMap(JobState.init) else { continue }
            known.append((id, state, fields, Self.intervals(try replies[index * 2 + 1].get())))
        }
        let due = try await dueTimes(of: known.filter { $0.state == .scheduled }.map(\.id))
        return known.map {
            JobRecord(id: $0.id, state: $0.state, fields: $0.fields, offsets: $0.offsets, dueAt: due[$0.id])
        }
    }

    /// When scheduled jobs are due, unix ms. Without those that this user may not read, or that have started meanwhile.
    private func dueTimes(of ids: [String]) async throws(RedisError) -> [String: Int64] {
        guard !ids.isEmpty else { return [:] }
        let scores = try await redis.pipeline(ids.map { .command(Command("ZSCORE", keys.scheduled, $0)) })
        let times = zip(ids, scores).compactMap { id, score in Int64(score: score.string).map { (id, $0) } }
        return Dictionary(times) { $1 }
    }

    /// The durable intervals of jobs, in the order of `ids`.
    package func offsets(of ids: [String]) async throws(RedisError) -> [ByteIntervals] {
        guard partitions.isEmpty else {
            return try await find(ids) { queue, ids throws(RedisError) -> [ByteIntervals?] in
                try await queue.offsets(of: ids).map { $0.isEmpty ? nil : $0 }
            }.map { $0?.value ?? ByteIntervals() }
        }
        var result: [ByteIntervals] = []
        for page in ids.chunks(ofCount: 500) {
            for reply in try await redis.pipeline(page.map { .command(Command("HGETALL", keys.offsets($0))) }) {
                result.append(Self.intervals(try reply.get()))
            }
        }
        return result
    }

    private static func intervals(_ reply: RedisValue) -> ByteIntervals {
        var intervals = ByteIntervals()
        for (start, end) in reply.dictionary {
            if let start = Int64(start), let end = Int64(end), start < end { intervals.insert(start..<end) }
        }
        return intervals
    }

    /// Which of these pushes have no effect, because their jobs were removed later. Returns their ids.
    ///
    /// - Parameter pushes: The timestamp of each push (unix ms), by the id of its job.
    package func removed(_ pushes: [String: Int64]) async throws(RedisError) -> [String] {
        guard partitions.isEmpty else {
            let found = try await each { queue throws(RedisError) in try await queue.removed(pushes) }
            return Set(found.joined()).sorted()
        }
        var result: [String] = []
        for pushes in Array(pushes).chunks(ofCount: 500) {
            let replies = try await redis.pipeline(
                pushes.map { .command(Command("HMGET", keys.job($0.key), "state", "settled_until", "ahead")) })
            for ((id, timestamp), reply) in zip(pushes, replies) {
                let values = (try reply.get().array ?? []).map(\.string)
                guard values.count == 3, values[0] == nil else { continue }
                if JobRecord.isSettled(timestamp, settledUntil: values[1], ahead: values[2]) { result.append(id) }
            }
        }
        return result
    }

    /// Jobs that were removed within the last hour, oldest first, at most `limit`, after skipping `start` of them.
    /// `runs` has the runs that may have left partial files; it is empty if the job was pushed again.
    package func removedRuns(from start: Int, limit: Int) async throws(RedisError) -> [(id: String, runs: Set<String>)]
    {
        let reply = try await redis.send(Command("ZRANGE", keys.removed, start, start + limit - 1))
        let ids = (reply.array ?? []).compactMap(\.string)
        let tombstones = try await redis.pipeline(ids.map { .command(Command("HMGET", keys.job($0), "state", "lost")) })
        return zip(ids, tombstones).map { id, tombstone in
            let values = (tombstone.array ?? []).map(\.string)
            guard values.count == 2, values[0] == nil, let lost = values[1] else { return (id, []) }
            return (id, Set(lost.split(separator: " ").map(String.init)))
        }
    }

    /// The ids in `state`, in the order of their index, at most `limit`, after skipping `start` of them: ended and
    /// paused jobs oldest first, scheduled ones by due time, running ones by lease, queued ones in the order in which
    /// they will run.
    package func ids(in state: JobState, from start: Int = 0, limit: Int) async throws(RedisError) -> [String] {
        guard state == .queued else {
            guard partitions.isEmpty else {
                return try await merged({ $0.index(state) }, from: start, limit: limit, isDescending: false)
                    .map(\.id)
            }
            let reply = try await redis.send(Command("ZRANGE", keys.index(state), start, start + limit - 1))
            return (reply.array ?? []).compactMap(\.string)
        }
        // In pages, so that no call occupies Redis for long.
        let lists = try await waitingLists()
        let end = limit < lists.count - start ? start + limit : lists.count
        var ids: [String] = []
        for first in stride(from: start, to: end, by: 2000) {
            ids += try await elements(in: lists, from: first, limit: min(2000, end - first)).map { element in
                guard let id = ElementID.quick(element.bytes), (try? JSON(element.bytes)) != nil else {
                    return Self.listed(element).id
                }
                return id
            }
        }
        return ids
    }

    /// The ids that got into `state`, which is final or `paused`, at `timestamp` (unix ms) or later. Oldest first; with
    /// partitions one partition after the other.
    ///
    /// - Parameter limit: How many to read of each partition, the newest ones.
    package func ids(
        in state: JobState, since timestamp: Int64, limit: Int = .max
    ) async throws(RedisError) -> [String] {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in
                try await queue.ids(in: state, since: timestamp, limit: limit)
            }.flatMap(\.self)
        }
        // From the oldest on, because jobs that leave the state meanwhile would let others slip through pages by rank.
        let end = try await self.end(of: state)
        var position = IndexPosition(from: timestamp)
        var ids: [String] = []
        while true {
            let page = try await listed(in: state, after: &position, until: end, limit: Self.elementsOfPage)
            ids += page.map(\.id)
            if page.count < Self.elementsOfPage { return Array(ids.suffix(limit)) }
        }
    }

    /// How many jobs are in `state`; for `queued`, how many elements wait.
    package func count(in state: JobState) async throws(RedisError) -> Int {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.count(in: state) }.reduce(0, +)
        }
        if state == .queued { return try await waitingLists().count }
        return try await redis.send(Command("ZCARD", keys.index(state))).int ?? 0
    }

    /// Seconds of silence after which a worker no longer counts. Workers tick each second, and the default lease is
    /// shorter.
    package static let silence = 10

    /// How many workers have ticked in the last `seconds`, by Redis' clock.
    package func workerCount(within seconds: Int = Self.silence) async throws(RedisError) -> Int {
        try await workerCount(since: time() - Int64(seconds) * 1000)
    }

    private func workerCount(since timestamp: Int64) async throws(RedisError) -> Int {
        guard partitions.isEmpty else {
            let names = try await each { queue throws(RedisError) in
                let reply = try await queue.redis.send(
                    Command("ZRANGE", queue.keys.workers, timestamp, "+inf", "BYSCORE"))
                return (reply.array ?? []).compactMap(\.string)
            }
            return Set(names.joined()).count
        }
        return try await redis.send(Command("ZCOUNT", keys.workers, timestamp, "+inf")).int ?? 0
    }

    /// The settings that may keep all jobs from starting, of each partition. `maxRunning` is nil if there is no limit.
    package func startLimits() async throws(RedisError) -> [(isPaused: Bool, maxRunning: Int?)] {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.startLimits()[0] }
        }
        return [try await Self.startLimits(redis.send(Command("HMGET", keys.settings, "paused", "max_running")))]
    }

    private static func startLimits(_ reply: RedisValue) -> (isPaused: Bool, maxRunning: Int?) {
        let settings = reply.array ?? []
        return (
            settings.first?.string == "1" || settings.first?.string == "true",
            settings.last?.int.flatMap { $0 >= 0 ? $0 : nil }
        )
    }

    /// Reads all figures of the queue.
    package func stats() async throws(RedisError) -> QueueStats {
        guard partitions.isEmpty else {
            var stats = QueueStats(joining: try await each { queue throws(RedisError) in try await queue.stats() })
            stats.workers = try await workerCount(since: stats.now - Int64(Self.silence) * 1000)
            return stats
        }
        var stats = QueueStats()
        // The waiting jobs first: one that is claimed meanwhile is counted twice, and not left out.
        stats.waiting = try await waitingLists()
        stats.counts[.queued] = stats.waiting.count
        let states = JobState.allCases.filter { $0 != .queued }
        let counts = states.map { Call.command(Command("ZCARD", keys.index($0))) }
        let replies = try await redis.pipeline(
            counts + [
                .command(Command("LLEN", keys.rejected)),
                .command(Command("HMGET", keys.settings, "paused", "max_running")),
                .command(Command("HLEN", keys.settings)), .command(Command("ZCARD", keys.workers)),
                .command(Command("GET", keys.tick)),
            ])
        for (state, reply) in zip(states, replies) { stats.counts[state] = try reply.get().int ?? 0 }
        let others = replies[states.count...].map { $0 }
        stats.rejected = try others[0].get().int ?? 0
        (stats.isPaused, stats.maxRunning) = Self.startLimits(try others[1].get())
        stats.pausedPartitions = stats.isPaused ? 1 : 0
        stats.allowedRunning = stats.maxRunning.map(Int64.init)
        stats.isKnown =
            stats.rejected > 0 || stats.counts.values.contains { $0 > 0 } || others[2].int ?? 0 > 0
            || others[3].int ?? 0 > 0 || others[4].string != nil
        // The first number of the key: Lua/tick/losses.lua.
        stats.lastTick = others[4].string.flatMap { Int64($0.prefix { $0 != " " }) }
        // In a call of its own. TIME has no slot, so any node answers it, and a pipeline follows a slot to another node
        // only if all its commands are redirected.
        stats.now = try await time()
        stats.workers = try await workerCount(since: stats.now - Int64(Self.silence) * 1000)
        return stats
    }

    /// How much of what follows the ends of jobs is still to be done: steps that a worker has to push, events that wait for
    /// replicas, replies that were put off. nil if this user may not read it.
    package func unfinishedEnds() async throws(RedisError) -> Int? {
        guard partitions.isEmpty else {
            let counts = try await each { queue throws(RedisError) in try await queue.unfinishedEnds() }
            return counts.contains(nil) ? nil : counts.reduce(0) { $0 + ($1 ?? 0) }
        }
        let replies = try await redis.pipeline([
            .command(Command("HLEN", keys[.owedSteps])), .command(Command("ZCARD", keys.unannounced)),
            .command(Command("LLEN", keys[.undeliveredReplies])),
        ])
        do throws(RedisError) {
            var count = 0
            for reply in replies { count += try reply.get().int ?? 0 }
            return count
        } catch {
            guard error.code == .noPermission else { throw error }
            return nil
        }
    }

    /// The known workers: name, and the fields of the hash without its claims.
    package func workers() async throws(RedisError) -> [(name: String, fields: [String: String])] {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.workers() }.joined()
                .newestOfEachWorker()
        }
        let names = try await redis.send(Command("ZRANGE", keys.workers, 0, -1)).array?.compactMap(\.string) ?? []
        guard !names.isEmpty else { return [] }
        let replies = try await redis.pipeline(names.map { .command(Command("HGETALL", keys.worker($0))) })
        var result: [(name: String, fields: [String: String])] = []
        for (name, reply) in zip(names, replies) {
            // The hash has a field for each claim too, whose name is its token of 32 digits.
            let fields = try reply.get().dictionary.filter { $0.key.utf8.count != 32 }
            // A worker that has left stays in the list for a while, without a hash.
            if !fields.isEmpty { result.append((name, fields)) }
        }
        return result
    }

    /// The newest entries of the list `rejected`, as JSON.
    package func rejected(limit: Int) async throws(RedisError) -> [String] {
        guard partitions.isEmpty else {
            let entries = try await each { queue throws(RedisError) in try await queue.rejected(limit: limit) }.joined()
            let dated = entries.map { (text: $0, at: (try? JSON($0))?["at"]?.integer ?? 0) }
            return dated.sorted { $0.at > $1.at }.prefix(limit).map(\.text)
        }
        return try await redis.send(Command("LRANGE", keys.rejected, 0, limit - 1)).array?.compactMap(\.string) ?? []
    }

    /// The events of `ids`, or of all jobs. `.subscribed` comes before the first event and after each reconnect.
    package func events(of ids: [String]? = nil) -> Subscription {
        let (channels, patterns) = channels(of: ids)
        return Subscription(redis.url, name: "haul-events", channels: channels, patterns: patterns)
    }

    /// The same over a connection that several subscriptions share.
    package func events(of ids: [String]?, over subscriber: Subscriber) -> Subscription {
        let (channels, patterns) = channels(of: ids)
        return Subscription(subscriber, channels: channels, patterns: patterns)
    }

    /// A job's channel in each partition, because its id does not always say in which one it is.
    private func channels(of ids: [String]?) -> (channels: [String], patterns: [String]) {
        // An ACL allows a pattern only if it is the same text as one of the role's. So there is one for all partitions.
        guard let ids else { return ([], [Keys(ofAllPartitionsOf: name).events("*")]) }
        return (parts.map(\.keys).flatMap { ids.map($0.events) }, [])
    }
}
