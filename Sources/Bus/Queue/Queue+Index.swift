package import HaulContract
package import HaulRedis

/// A position in the index of a state, which stays right while jobs enter and leave the index.
package struct IndexPosition: Sendable {
    /// The last job that was read, with its score as Redis wrote it.
    fileprivate var last: (id: String, score: String)?
    /// How many jobs of this score were read. Some of them may have left the index since.
    fileprivate var count = 0
    /// The partition that is read. A queue of partitions is read one after the other.
    fileprivate var partition = 0

    /// The score at which the index begins, as Redis reads it.
    fileprivate var first = "-inf"

    /// The beginning of an index.
    package init() {}

    /// The first job that got into the state at this time (unix ms) or later.
    package init(from timestamp: Int64) { first = String(timestamp) }

    fileprivate init(partition: Int) { self.partition = partition }

    /// Redis sorts jobs of one score by the bytes of their ids, which are ASCII.
    fileprivate func isBefore(_ entry: (id: String, score: String)) -> Bool {
        last.map { $0.score != entry.score || $0.id < entry.id } ?? true
    }
}

extension Queue {
    /// Where a pass through the index of a state ends, for `listed(in:after:until:limit:)`. Jobs that get into the state
    /// during the pass are left out, because there may be more of them all the time. Scheduled jobs are sorted by their due
    /// times.
    package func end(of state: JobState) async throws(RedisError) -> Int64? {
        state == .scheduled ? nil : try await time()
    }

    /// The jobs of a state behind `position`, at most `limit`, oldest first; scheduled ones by due time. Only for states
    /// whose index is sorted by a time that does not change: not for queued and running jobs.
    ///
    /// - Parameters:
    ///   - position: Is moved behind the last job that is returned.
    ///   - end: Jobs with a greater score are left out: unix ms, or nil.
    package func listed(
        in state: JobState, after position: inout IndexPosition, until end: Int64?, limit: Int
    ) async throws(RedisError) -> [ListedJob] {
        guard partitions.isEmpty else {
            var page: [ListedJob] = []
            while page.count < limit, position.partition < partitions.count {
                let wanted = limit - page.count
                let found = try await partitions[position.partition].listed(
                    in: state, after: &position, until: end, limit: wanted)
                page += found
                if found.count < wanted { position = IndexPosition(partition: position.partition + 1) }
            }
            return page
        }
        let from = position.last?.score ?? position.first
        func entries(skipping skip: Int, _ count: Int) async throws(RedisError) -> [(id: String, score: String)] {
            let reply = try await redis.send(
                Command(
                    "ZRANGE", keys.index(state), from, end.map { "\($0)" } ?? "+inf", "BYSCORE", "LIMIT", skip, count,
                    "WITHSCORES"))
            let texts = (reply.array ?? []).map { $0.string ?? "" }
            return stride(from: 0, to: texts.count - 1, by: 2).map { (texts[$0], texts[$0 + 1]) }
        }
        var page = try await entries(skipping: max(0, position.count - 1), limit + 1)
        if let first = page.first, first.id == position.last?.id {
            page.removeFirst()
        } else {
            // Jobs of the last score have left the index. The position is somewhere before the counted one.
            var (low, high) = (0, position.count)
            while low < high {
                let middle = (low + high) / 2
                if let entry = try await entries(skipping: middle, 1).first, !position.isBefore(entry) {
                    low = middle + 1
                } else {
                    high = middle
                }
            }
            position.count = low
            if low > 0 || position.last != nil { page = try await entries(skipping: low, limit) }
        }
        page = Array(page.prefix(limit))
        if let last = page.last {
            let same = page.reversed().prefix { $0.score == last.score }.count
            position.count = last.score == position.last?.score ? position.count + same : same
            position.last = last
        }
        return page.map { ListedJob(id: $0.id, timestamp: Int64(score: $0.score)) }
    }
}
