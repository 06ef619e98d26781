package import HaulContract
package import HaulRedis

// Reads for pages of jobs, in calls that each occupy Redis only briefly.

/// A job in the list of its state.
package struct ListedJob: Sendable, Hashable {
    package let id: String
    /// The first URL without secrets, of a queued job as its element gives it; nil for others.
    package var maskedURL: String?
    /// The score of the job in its index, unix ms. For a queued job the timestamp of its push, if the element has one.
    package var timestamp: Int64?
    /// The batch that the element of a queued job names.
    package var batch: String?
    /// The group that the element of a queued job names.
    package var group: String?
    /// The kind of a queued job, as its element names it.
    package var kind: String?
    /// What a queued job waits for besides its turn, for people; nil for others.
    package var waitsFor: String?
    /// Those of the wanted URLs that a queued job's element has: `Queue.jobs(ofURLs:)`.
    var urls: Set<String> = []

    package init(
        id: String, maskedURL: String? = nil, timestamp: Int64? = nil, batch: String? = nil, group: String? = nil
    ) {
        (self.id, self.maskedURL, self.timestamp, self.batch) = (id, maskedURL, timestamp, batch)
        self.group = group
    }
}

extension Queue {
    /// Fields of a job's hash for a line about the job.
    package static let summaryFields = [
        "state", "url", "path", "file", "received", "total", "speed", "attempt", "worker", "error", "message",
        "waiting", "created", "started", "updated", "finished", "batch", "kind", "group",
    ]
    /// How many ids or hashes one call reads.
    private static let pageSize = 500

    /// The jobs in `state`, at most `limit`, after skipping `start` of them. Newest first, but queued and scheduled
    /// jobs in the order in which they will run.
    ///
    /// - Parameters:
    ///   - lists: Where queued jobs wait; nil: read now.
    ///   - isReversed: Begin at the other end.
    package func listed(
        in state: JobState, from start: Int, limit: Int, _ lists: WaitingLists? = nil, isReversed: Bool = false
    ) async throws(RedisError) -> [ListedJob] {
        if state == .queued {
            let lists = if let lists { lists } else { try await waitingLists() }
            guard isReversed else { return try await elements(in: lists, from: start, limit: limit).map(Self.listed) }
            let end = max(0, lists.count - start)
            let first = max(0, end - limit)
            return try await elements(in: lists, from: first, limit: end - first).reversed().map(Self.listed)
        }
        guard partitions.isEmpty else {
            return try await merged(
                { $0.index(state) }, from: start, limit: limit, isDescending: (state == .scheduled) == isReversed)
        }
        let range: [any RedisArgument] = [keys.index(state), start, start + limit - 1]
        let order: [any RedisArgument] = (state == .scheduled) == isReversed ? ["REV"] : []
        let reply = try await redis.send(Command(arguments: ["ZRANGE"] + range + order + ["WITHSCORES"]))
        let texts = (reply.array ?? []).map { $0.string ?? "" }
        return stride(from: 0, to: texts.count - 1, by: 2).map {
            ListedJob(id: texts[$0], timestamp: Int64(score: texts[$0 + 1]))
        }
    }

    /// The ids of all running jobs, sorted. The order of their leases would change with each tick.
    package func runningIDs() async throws(RedisError) -> [String] {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.runningIDs() }.joined().sorted()
        }
        let count = try await count(in: .running)
        let calls = stride(from: 0, to: count, by: Self.pageSize).map {
            Call.command(Command("ZRANGE", keys.leases, $0, $0 + Self.pageSize - 1))
        }
        var ids: Set<String> = []
        for reply in try await redis.pipeline(calls) {
            for value in try reply.get().array ?? [] { if let id = value.string { ids.insert(id) } }
        }
        return ids.sorted()
    }

    /// Some fields of jobs' hashes, in the order of `ids`. A job that is not known has none, unless it was removed. Of
    /// partitions with `state` the one that knows the job comes before one from which it was removed.
    package func fields(
        _ names: [String], of ids: some Collection<String>
    ) async throws(RedisError) -> [[String: String]] {
        guard partitions.isEmpty else {
            let decides = names.contains("state")
            return try await findKnown(
                Array(ids), { (fields: [String: String]) in !decides || fields["state"] != nil }, { $0.isEmpty }
            ) { queue, ids throws(RedisError) in try await queue.fields(names, of: ids) }
            .map { $0 ?? [:] }
        }
        var result: [[String: String]] = []
        for page in Array(ids).chunks(ofCount: Self.pageSize) {
            let calls = page.map { Call.command(Command(arguments: ["HMGET", keys.job($0)] + names)) }
            for reply in try await redis.pipeline(calls) {
                let values = (try reply.get().array ?? []).map(\.string)
                let pairs = zip(names, values).compactMap { name, value in value.map { (name, $0) } }
                result.append(Dictionary(pairs) { $1 })
            }
        }
        return result
    }

    /// The same as bytes, each list in the order of `names`: cheaper for a search through many jobs.
    package func values(
        _ names: [String], of ids: some Collection<String>
    ) async throws(RedisError) -> [[[UInt8]?]] {
        if names.isEmpty { return ids.map { _ in [] } }
        guard partitions.isEmpty else {
            let state = names.firstIndex(of: "state")
            return try await findKnown(
                Array(ids), { (values: [[UInt8]?]) in state.map { values[$0] != nil } ?? true },
                { $0.allSatisfy { $0 == nil } }
            ) { queue, ids throws(RedisError) in try await queue.values(names, of: ids) }
            .map { $0 ?? names.map { _ in nil } }
        }
        var result: [[[UInt8]?]] = []
        for page in Array(ids).chunks(ofCount: Self.pageSize) {
            let calls = page.map { Call.command(Command(arguments: ["HMGET", keys.job($0)] + names)) }
            for reply in try await redis.pipeline(calls) { result.append((try reply.get().array ?? []).map(\.bytes)) }
        }
        return result
    }

    /// The element of a job, and a newer push whose URLs and headers are used, both as JSON with all secrets.
    package func pushed(_ id: String) async throws(RedisError) -> (spec: String?, renewed: String?) {
        guard partitions.isEmpty else {
            let place = try await locate([id])[0]
            guard let place else { return (nil, nil) }
            return try await partitions[place].pushed(id)
        }
        let values = try await redis.send(Command("HMGET", keys.spec(id), "spec", "renewed")).array ?? []
        return (values.first?.string, values.last?.string.flatMap { $0.isEmpty ? nil : $0 })
    }

    static func listed(_ element: WaitingElement) -> ListedJob {
        var job = listed(element.bytes, base: element.source.base)
        job.waitsFor = element.source.reason ?? job.waitsFor
        return job
    }

    /// An element as a job of a list. Every element is one, so that everything that is counted can be listed, shown and
    /// searched. Without a valid id it has the one under which a batch counts it: Batches.refuse() of
    /// Lua/batches/batches.lua.
    ///
    /// - Parameter base: The URL against which the queue resolves a relative `url`, on which the id may depend.
    package static func listed(_ element: [UInt8], base: String? = nil) -> ListedJob {
        let json = try? JSON(element)
        if let json, let element = try? Element(waiting: element, json, base: base) {
            var job = ListedJob(
                id: element.id, maskedURL: element.maskedURL, timestamp: element.timestamp, batch: element.batch,
                group: element.group)
            job.kind = json["kind"]?.string ?? Job.Kind.download.rawValue
            return job
        }
        let id = json?["id"]?.string.flatMap { JobField.isID($0) ? $0 : nil }
        var job = ListedJob(id: id ?? digestID(of: element), timestamp: json?["at"]?.timestamp)
        // A later version may know this kind.
        job.kind = json?["kind"]?.string.flatMap { JobField.isID($0) ? $0 : nil }
        if json?.members == nil { job.waitsFor = "a worker to reject it, because it is not a JSON object" }
        return job
    }

    /// The id of an element that gives none, and has no URL from which it would follow.
    static func digestID(of element: [UInt8]) -> String { String(SHA1.hex(element).prefix(16)) }
}
