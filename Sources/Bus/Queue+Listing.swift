package import HaulContract
package import HaulRedis

// What pages read: in pieces of which none keeps Redis for long.

/// A job's place in an index, and what is told of it there.
package struct ListedJob: Sendable, Hashable {
    package let id: String
    /// Of a queued job that no worker has seen: its first URL without secrets. nil for others.
    package var maskedURL: String?
    /// When it got there, unix ms; of a queued job the moment of its push, if its element tells one.
    package var moment: Int64?
    /// The batch that a queued job's element names.
    package var batch: String?

    package init(id: String, maskedURL: String? = nil, moment: Int64? = nil, batch: String? = nil) {
        (self.id, self.maskedURL, self.moment, self.batch) = (id, maskedURL, moment, batch)
    }
}

extension Queue {
    /// Fields of a job's hash that are enough for a line about it.
    package static let summaryFields = [
        "state", "url", "path", "file", "received", "total", "speed", "attempt", "worker", "error", "message",
        "waiting",
        "created", "started", "updated", "finished",
    ]
    /// How many ids or hashes one call asks for.
    private static let pageSize = 500

    /// The jobs in `state`, at most `limit`, without the first `start`: newest first, but queued and scheduled ones in the order
    /// in which their turn comes.
    package func listed(
        in state: JobState, from start: Int, limit: Int
    ) async throws(RedisError) -> [ListedJob] {
        if state == .queued {
            let reply = try await redis.send(Command("LRANGE", keys.jobs, -start - limit, -start - 1))
            return (reply.array ?? []).reversed().compactMap(\.bytes).compactMap(Self.listed)
        }
        let range: [any RedisArgument] = [keys.index(state), start, start + limit - 1]
        let order: [any RedisArgument] = state == .scheduled ? [] : ["REV"]
        let reply = try await redis.send(Command(arguments: ["ZRANGE"] + range + order + ["WITHSCORES"]))
        let texts = (reply.array ?? []).map { $0.string ?? "" }
        return stride(from: 0, to: texts.count - 1, by: 2).map {
            ListedJob(id: texts[$0], moment: Double(texts[$0 + 1]).flatMap { Int64(exactly: $0) })
        }
    }

    /// The ids of all running jobs, in the order of their names: that of their leases changes with each tick.
    package func runningIDs() async throws(RedisError) -> [String] {
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

    /// Some fields of jobs' hashes, in the order of `ids`; a job that is not known has none.
    package func fields(
        _ names: [String], of ids: some Collection<String>
    ) async throws(RedisError) -> [[String: String]] {
        var result: [[String: String]] = []
        for page in Array(ids).pages(of: Self.pageSize) {
            let calls = page.map { Call.command(Command(arguments: ["HMGET", keys.job($0)] + names)) }
            for reply in try await redis.pipeline(calls) {
                let values = (try reply.get().array ?? []).map(\.string)
                let pairs = zip(names, values).compactMap { name, value in value.map { (name, $0) } }
                result.append(Dictionary(pairs) { $1 })
            }
        }
        return result
    }

    /// The same as bytes, in the order of `names`: for who looks at many jobs to find a few.
    package func values(
        _ names: [String], of ids: some Collection<String>
    ) async throws(RedisError) -> [[[UInt8]?]] {
        if names.isEmpty { return ids.map { _ in [] } }
        var result: [[[UInt8]?]] = []
        for page in Array(ids).pages(of: Self.pageSize) {
            let calls = page.map { Call.command(Command(arguments: ["HMGET", keys.job($0)] + names)) }
            for reply in try await redis.pipeline(calls) { result.append((try reply.get().array ?? []).map(\.bytes)) }
        }
        return result
    }

    /// What was pushed of a job, and the newer push whose URLs and headers count: JSON with all secrets.
    package func pushed(_ id: String) async throws(RedisError) -> (spec: String?, renewed: String?) {
        let values = try await redis.send(Command("HMGET", keys.spec(id), "spec", "renewed")).array ?? []
        return (values.first?.string, values.last?.string.flatMap { $0.isEmpty ? nil : $0 })
    }

    static func listed(_ element: [UInt8]) -> ListedJob? {
        guard let json = try? JSON(element) else { return nil }
        if let element = try? Element(json) {
            return ListedJob(
                id: element.id, maskedURL: element.maskedURL, moment: element.moment, batch: element.batch)
        }
        return json["id"]?.string.map { ListedJob(id: $0, moment: json["at"]?.integer) }
    }
}
