import HaulContract
package import HaulRedis

/// The counts and settings of a batch: docs/guides/batches.md.
package struct BatchRecord: Sendable, Equatable {
    package let name: String
    /// How many members are counted in each state.
    package let counts: [BatchState: Int]
    /// How many members the batch will have; nil if no push has given a size.
    package let size: Int?
    /// How many times the batch has ended.
    package let round: Int
    /// When the first member came, and when the batch ended, unix ms. `finished` is nil while a member is pending.
    package let created: Int64?
    package let finished: Int64?
    /// The operation that is in force for members which join later.
    package let wanted: String?
    /// The timestamp of that operation, unix ms.
    package let wantedAt: Int64?
    package let replyTo: [String]

    /// nil for a batch that has no member yet.
    init?(_ name: String, _ fields: [String: String]) {
        guard let created = fields["created"] else { return nil }
        self.name = name
        self.created = Int64(created)
        counts = Dictionary(
            uniqueKeysWithValues: BatchState.allCases.map { ($0, fields[$0.rawValue].flatMap { Int($0) } ?? 0) })
        size = fields["size"].flatMap { Int($0) }
        round = fields["round"].flatMap { Int($0) } ?? 0
        finished = Int64(field: fields["finished"])
        wanted = fields["want"]
        wantedAt = Int64(field: fields["want_at"])
        replyTo = (fields["reply_to"] ?? "").split(separator: " ").map(String.init)
    }
}

/// The state in which a member of a batch is counted.
package enum BatchState: String, Sendable, CaseIterable {
    /// The job has not ended: it is queued, scheduled, running or paused.
    case pending
    case completed, failed, cancelled
    /// The element was not a valid job.
    case rejected
}

/// An operation for all members of a batch.
package enum BatchOperation: String, Sendable {
    case paused, cancelled
    /// Paused members continue.
    case running
    /// Failed members run again.
    case retried
}

extension Queue {
    /// nil for a batch that has no member yet, or that has expired.
    package func batch(_ name: String) async throws(RedisError) -> BatchRecord? {
        guard partitions.isEmpty else { return try await partition(of: name).batch(name) }
        let reply = try await redis.send(Command("HGETALL", keys.batch(name)))
        return BatchRecord(name, reply.dictionary)
    }

    /// The batches of a job that have a control operation for members which join later. Reads at most eight batches.
    package func stoppedBatches(of job: JobRecord) async throws(RedisError) -> [BatchRecord] {
        var stopped: [BatchRecord] = []
        for name in job.batches.prefix(8) {
            if let batch = try await batch(name), batch.wanted != nil { stopped.append(batch) }
        }
        return stopped
    }

    /// The newest batches, at most `limit`, after skipping `start` of them.
    package func batches(from start: Int = 0, limit: Int) async throws(RedisError) -> [BatchRecord] {
        guard partitions.isEmpty else {
            let page = try await merged(\.batches, from: start, limit: limit, isDescending: true).map(\.id)
            let places = Dictionary(grouping: page) { name.partition(of: $0) }
            let found = try await each { queue throws(RedisError) in
                try await queue.batches(named: places[queue.name.partition ?? 0] ?? [])
            }
            let records = Dictionary(found.joined().map { ($0.name, $0) }) { one, _ in one }
            return page.compactMap { records[$0] }
        }
        let range = Command("ZRANGE", keys.batches, start, start + limit - 1, "REV")
        return try await batches(named: (try await redis.send(range).array ?? []).compactMap(\.string))
    }

    private func batches(named names: [String]) async throws(RedisError) -> [BatchRecord] {
        let replies = try await redis.pipeline(names.map { .command(Command("HGETALL", keys.batch($0))) })
        return zip(names, replies).compactMap { BatchRecord($0, $1.dictionary) }
    }

    /// How many batches are listed. Some of them may have expired.
    package func batchCount() async throws(RedisError) -> Int {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.batchCount() }.reduce(0, +)
        }
        return try await redis.send(Command("ZCARD", keys.batches)).int ?? 0
    }

    /// The ids of a batch's members by the state in which they are counted, each list sorted. Reads the hash in pages.
    package func members(ofBatch name: String) async throws(RedisError) -> [BatchState: [String]] {
        guard partitions.isEmpty else { return try await partition(of: name).members(ofBatch: name) }
        // HSCAN may return a member twice while the hash grows.
        var members: [String: String] = [:]
        var cursor = "0"
        repeat {
            let reply = try await redis.send(Command("HSCAN", keys.members(name), cursor, "COUNT", 500)).array ?? []
            members.merge(reply.last?.dictionary ?? [:]) { $1 }
            cursor = reply.first?.string ?? "0"
        } while cursor != "0"
        let known = members.compactMap { id, state in BatchState(rawValue: state).map { (id: id, state: $0) } }
        return Dictionary(grouping: known, by: \.state).mapValues { $0.map(\.id).sorted() }
    }

    /// Writes an operation for all members of a batch, and for members that join later. Ticks pass it to the members,
    /// some at a time.
    ///
    /// - Returns: The timestamp of the operation, unix ms.
    @discardableResult package func request(
        _ operation: BatchOperation, ofBatch name: String
    ) async throws(RedisError) -> Int64 {
        guard partitions.isEmpty else { return try await partition(of: name).request(operation, ofBatch: name) }
        let timestamp = try await timestamp(of: .operation)
        try await redis.send(Command("HSET", keys.want, "batch/\(name)", "\(operation.rawValue) \(timestamp)"))
        return timestamp
    }
}
