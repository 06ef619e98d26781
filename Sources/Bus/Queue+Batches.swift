import HaulContract
package import HaulRedis

/// What is counted of a batch: docs/bus.md, "Batches".
package struct BatchRecord: Sendable, Equatable {
    package let name: String
    /// Members by the state that they are counted in.
    package let counts: [BatchState: Int]
    /// How many members the batch has in the end; nil if nobody has said it.
    package let size: Int?
    /// How often it has been over.
    package let round: Int
    /// When its first member came, and when it was over, unix ms. Where a member is pending again it is not over.
    package let created: Int64?
    package let finished: Int64?
    /// The request that is in force for members that join.
    package let wanted: String?
    package let replyTo: [String]

    /// nil for a batch of which no member has come.
    init?(_ name: String, _ fields: [String: String]) {
        guard let created = fields["created"] else { return nil }
        self.name = name
        self.created = Int64(created)
        counts = Dictionary(
            uniqueKeysWithValues: BatchState.allCases.map { ($0, fields[$0.rawValue].flatMap { Int($0) } ?? 0) })
        size = fields["size"].flatMap { Int($0) }
        round = fields["round"].flatMap { Int($0) } ?? 0
        finished = fields["finished"].flatMap { Int64($0) }
        wanted = fields["want"]
        replyTo = (fields["reply_to"] ?? "").split(separator: " ").map(String.init)
    }
}

/// In which state a member of a batch is counted.
package enum BatchState: String, Sendable, CaseIterable {
    /// It has not ended: in line, scheduled, running or paused.
    case pending
    case completed, failed, cancelled
    /// Its element was no valid job.
    case rejected
}

/// What may be asked of a batch.
package enum BatchRequest: String, Sendable {
    case paused, cancelled
    /// Paused members go on.
    case running
    /// Failed members run once more.
    case retried
}

extension Queue {
    /// What is counted of a batch; nil for one of which no member has come, or that is forgotten.
    package func batch(_ name: String) async throws(RedisError) -> BatchRecord? {
        let reply = try await redis.send(Command("HGETALL", keys.batch(name)))
        return BatchRecord(name, reply.dictionary)
    }

    /// The newest batches, at most `limit`, without the first `start`.
    package func batches(from start: Int = 0, limit: Int) async throws(RedisError) -> [BatchRecord] {
        let range = Command("ZRANGE", keys.batches, start, start + limit - 1, "REV")
        let names = try await redis.send(range).array ?? []
        let known = names.compactMap(\.string)
        let replies = try await redis.pipeline(known.map { .command(Command("HGETALL", keys.batch($0))) })
        return zip(known, replies).compactMap { BatchRecord($0, $1.dictionary) }
    }

    /// How many batches are listed; some of them may be no more.
    package func batchCount() async throws(RedisError) -> Int {
        try await redis.send(Command("ZCARD", keys.batches)).int ?? 0
    }

    /// The ids of a batch's members by how they are counted, each in the order of their names. It is read in pages.
    package func members(ofBatch name: String) async throws(RedisError) -> [BatchState: [String]] {
        // While the hash grows, its pages may tell a member twice.
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

    /// Leaves a request for all members of a batch, those included that have not come yet. Ticks hand it to them, some at a time.
    package func request(_ request: BatchRequest, ofBatch name: String) async throws(RedisError) {
        let moment = try await moment()
        try await redis.send(Command("HSET", keys.want, "batch/\(name)", "\(request.rawValue) \(moment)"))
    }
}
