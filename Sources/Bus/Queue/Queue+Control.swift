package import HaulContract
package import HaulRedis

/// What an operator wants to happen to a job.
package enum ControlOperation: String, Sendable {
    case paused, cancelled
    /// Resume a paused job, or retry a failed one.
    case running
    /// Cancel a job that has not ended, and forget it. `deleted` also deletes the finished file.
    case removed, deleted
}

extension Queue {
    /// Writes operations for jobs in any state, and notifies the workers. The next tick of a worker applies them,
    /// within a second.
    ///
    /// - Parameter timestamp: The operations stop pushes that are not newer, unix ms; nil: now, by Redis' clock.
    /// - Returns: That timestamp.
    @discardableResult package func request(
        _ operation: ControlOperation, of ids: [String], at timestamp: Int64? = nil
    ) async throws(RedisError) -> Int64 {
        guard partitions.isEmpty else { return try await requestOfPartitions(operation, of: ids) { _ in timestamp } }
        let timestamp = if let timestamp { timestamp } else { try await self.timestamp(of: .operation) }
        for batch in stride(from: 0, to: ids.count, by: 500) {
            let ids = ids[batch..<min(batch + 500, ids.count)]
            let pairs = ids.flatMap { [$0, "\(operation.rawValue) \(timestamp)"] }
            // In a call of its own. A pipeline follows a slot to another node only if all its commands are redirected,
            // and any node accepts PUBLISH.
            try await redis.send(Command(arguments: ["HSET", keys.want] + pairs))
            let hints = ids.map { Call.command(Command("PUBLISH", keys.control, $0)) }
            for reply in try await redis.pipeline(hints) { _ = try reply.get() }
        }
        return timestamp
    }

    /// The timestamps for an operation on jobs that are chosen from now on; nil if it has the time of its request. Jobs
    /// that have ended may be pushed again while they are chosen, and to remove them must not stop that push.
    package func timestamps(
        of operation: ControlOperation, choosing states: [JobState]
    ) async throws(RedisError) -> [Int: Int64]? {
        let removes = [.removed, .deleted].contains(operation)
        let haveEnded = !states.isEmpty && states.allSatisfy(\.isFinal)
        return removes && haveEnded ? try await operationTimestamps() : nil
    }

    /// Writes operations with timestamps that were taken before the jobs were chosen, so that pushes since then are not
    /// stopped. A job that an operation waits for is left out, because that operation is newer.
    ///
    /// - Parameter timestamps: Of each partition; nil: now, for all of `ids`.
    /// - Returns: The timestamp, and the jobs that were not left out.
    package func request(
        _ operation: ControlOperation, of ids: [String], at timestamps: [Int: Int64]?
    ) async throws(RedisError) -> (timestamp: Int64, ids: [String]) {
        guard let timestamps else { return (try await request(operation, of: ids), ids) }
        var free: [String] = []
        for page in ids.chunks(ofCount: 500) {
            let waiting = try await waitingOperations(Array(page))
            free += page.filter { !waiting.contains($0) }
        }
        let timestamp =
            if partitions.isEmpty {
                try await request(operation, of: free, at: timestamps[0])
            } else { try await requestOfPartitions(operation, of: free) { timestamps[$0] } }
        return (timestamp, free)
    }

    /// Those of `ids` for which an operation waits in `want`.
    private func waitingOperations(_ ids: [String]) async throws(RedisError) -> Set<String> {
        guard partitions.isEmpty else {
            return Set(
                try await each { queue throws(RedisError) in try await queue.waitingOperations(ids) }.joined())
        }
        return Set(zip(ids, try await requested(ids)).filter { $1 != nil }.map(\.0))
    }

    /// An operation for a job that no partition knows goes to all of them: it may be pushed to any, and the operation is
    /// forgotten where it is not. Each partition has the time of its own server, as its pushes have.
    private func requestOfPartitions(
        _ operation: ControlOperation, of ids: [String], at timestamp: @escaping @Sendable (Int) -> Int64?
    ) async throws(RedisError) -> Int64 {
        let places = try await locate(ids)
        let times = try await each { queue throws(RedisError) -> Int64? in
            let own = zip(ids, places).filter { $1 == nil || $1 == queue.name.partition }.map(\.0)
            if own.isEmpty { return nil }
            return try await queue.request(operation, of: own, at: queue.name.partition.flatMap(timestamp))
        }
        return times.compactMap(\.self).max() ?? 0
    }

    /// Those of `jobs` for which an operation does not wait yet, neither in `want` nor in the job's hash. A waiting job
    /// whose push is newer than the operation is among them, because the operation does not stop that push.
    package func jobs(
        _ jobs: [ListedJob], in state: JobState, without operation: ControlOperation
    ) async throws(RedisError) -> [ListedJob] {
        guard partitions.isEmpty else {
            let places = try await locate(jobs.map(\.id))
            let open = try await each { queue throws(RedisError) in
                // An operation for an unknown job is in all partitions.
                let own = zip(jobs, places).filter { ($1 ?? 0) == queue.name.partition }.map(\.0)
                return try await queue.jobs(own, in: state, without: operation).map(\.id)
            }
            let ids = Set(open.joined())
            return jobs.filter { ids.contains($0.id) }
        }
        var result: [ListedJob] = []
        for page in jobs.chunks(ofCount: 500) {
            // In this order, because a tick may move an operation from `want` to the hash in between.
            let requested = try await requested(page.map(\.id))
            let known = try await fields(["want", "want_at"], of: page.map(\.id))
            for ((job, text), fields) in zip(zip(page, requested), known) {
                let words = (text ?? "").split(separator: " ").map(String.init)
                let given = [(words.first, words.last), (fields["want"], fields["want_at"])]
                let isWaiting = given.contains { word, time in
                    guard word == operation.rawValue else { return false }
                    guard state == .queued, let pushed = job.timestamp, let time = time.flatMap({ Int64($0) }) else {
                        return true
                    }
                    return time >= pushed
                }
                if !isWaiting { result.append(job) }
            }
        }
        return result
    }

    /// The texts of `want` for `ids`. nil if there is none, or if this user may not read them.
    private func requested(_ ids: [String]) async throws(RedisError) -> [String?] {
        do throws(RedisError) {
            return (try await redis.send(Command(arguments: ["HMGET", keys.want] + ids)).array ?? []).map(\.string)
        } catch {
            guard error.code == .noPermission else { throw error }
            return ids.map { _ in nil }
        }
    }

    /// The control operation of a job that no worker has applied yet.
    package func pendingOperation(of id: String) async throws(RedisError) -> ControlOperation? {
        guard partitions.isEmpty else {
            let place = try await locate([id])[0] ?? 0
            return try await partitions[place].pendingOperation(of: id)
        }
        let text = try await requested([id])[0]
        return text?.split(separator: " ").first.flatMap { ControlOperation(rawValue: String($0)) }
    }

    /// The timestamps of the retries that no worker has applied yet, unix ms, by the ids of their jobs. The ends of these
    /// jobs are those of earlier runs.
    package func pendingRetries(of ids: [String]) async throws(RedisError) -> [String: Int64] {
        guard !ids.isEmpty else { return [:] }
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.pendingRetries(of: ids) }
                .reduce(into: [:]) { $0.merge($1, uniquingKeysWith: max) }
        }
        var retries: [String: Int64] = [:]
        for page in ids.chunks(ofCount: 500) {
            for (id, text) in zip(page, try await requested(Array(page))) {
                let words = (text ?? "").split(separator: " ")
                guard words.first == "running", let timestamp = words.last.flatMap({ Int64($0) }) else { continue }
                retries[id] = timestamp
            }
        }
        return retries
    }

    /// Sets a field of the queue's settings; nil deletes it. The value is not checked.
    package func setSetting(_ name: String, to value: String?) async throws(RedisError) {
        guard partitions.isEmpty else {
            return try await changeAll { queue throws(RedisError) in try await queue.setSetting(name, to: value) }
        }
        if let value {
            try await redis.send(Command("HSET", keys.settings, name, value))
        } else {
            try await redis.send(Command("HDEL", keys.settings, name))
        }
    }
}
