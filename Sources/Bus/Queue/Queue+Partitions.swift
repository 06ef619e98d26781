import HaulContract
package import HaulRedis

// A queue of partitions: Sources/Bus/README.md. Each partition is an ordinary queue. An
// operation on the whole asks one partition or all of them, and joins their replies.

extension Queue {
    /// The partitions of the queue, or the queue itself.
    package var parts: [Queue] { partitions.isEmpty ? [self] : partitions }

    /// Where a job with this id, or a batch or a schedule of this name belongs.
    func partition(of name: String) -> Queue { partitions.isEmpty ? self : partitions[self.name.partition(of: name)] }

    /// The number of the partition for an element. The members of a batch are together, because Redis counts them there.
    func placement(of element: Element) -> Int { placement(ofID: element.id, inBatch: element.batch) }

    package func placement(ofID id: String, inBatch batch: String?) -> Int {
        partitions.isEmpty ? 0 : name.partition(of: batch ?? id)
    }

    /// A timestamp for operations in each partition, by the clock of its server.
    package func operationTimestamps() async throws(RedisError) -> [Int: Int64] {
        guard !partitions.isEmpty else { return [0: try await timestamp(of: .operation)] }
        let times = try await each { queue throws(RedisError) in try await queue.timestamp(of: .operation) }
        return Dictionary(uniqueKeysWithValues: times.enumerated().map { ($0.offset, $0.element) })
    }

    /// A timestamp for a push in each of some partitions, by the clock of its server.
    ///
    /// - Parameter pushes: The ids that are pushed, by the numbers of the partitions.
    package func timestamps(of pushes: [Int: [String]]) async throws(RedisError) -> [Int: Int64] {
        let sorted = pushes.keys.sorted()
        guard !partitions.isEmpty else {
            return [0: try await timestamp(of: .push(Array(pushes.values.joined())))]
        }
        let times = try await each(sorted) { queue, number throws(RedisError) in
            try await queue.timestamp(of: .push(pushes[number] ?? []))
        }
        return Dictionary(uniqueKeysWithValues: zip(sorted, times))
    }

    /// Runs `body` for all partitions at once. Returns its results in the order of the partitions.
    package func each<T: Sendable>(
        _ body: @escaping @Sendable (Queue) async throws(RedisError) -> T
    ) async throws(RedisError) -> [T] {
        try await each(Array(partitions.indices)) { queue, _ throws(RedisError) in try await body(queue) }
    }

    /// The same for some partitions, by their numbers.
    private func each<T: Sendable>(
        _ numbers: [Int], _ body: @escaping @Sendable (Queue, Int) async throws(RedisError) -> T
    ) async throws(RedisError) -> [T] {
        try await results(numbers, body).map { result throws(RedisError) in try result.get() }
    }

    /// What became of `body` in each of some partitions, in their order. The errors name the partition.
    func results<T: Sendable>(
        _ numbers: [Int], _ body: @escaping @Sendable (Queue, Int) async throws(RedisError) -> T
    ) async -> [Result<T, RedisError>] {
        await withTaskGroup(of: (Int, Result<T, RedisError>).self) { group in
            for (position, number) in numbers.enumerated() {
                group.addTask {
                    do throws(RedisError) {
                        return (position, .success(try await body(partitions[number], number)))
                    } catch {
                        guard error.code != .cancelled else { return (position, .failure(error)) }
                        let message = "the partition \(partitions[number].name): \(error.message)"
                        return (position, .failure(RedisError(error.code, message)))
                    }
                }
            }
            var results = [Result<T, RedisError>](repeating: .failure(.clientClosed), count: numbers.count)
            for await (position, result) in group { results[position] = result }
            return results
        }
    }

    /// Makes a change in all partitions. Those that do not answer do not keep it from the others: an operator who pauses
    /// a queue during a failure wants it to reach as many as it can.
    ///
    /// - Throws: An error that says where the change was not made. It is partial if it was made in some partitions.
    func changeAll(
        _ body: @escaping @Sendable (Queue) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        let numbers = Array(partitions.indices)
        let results = await results(numbers) { queue, _ throws(RedisError) in try await body(queue) }
        var (failed, first): ([String], RedisError?) = ([], nil)
        for (number, result) in zip(numbers, results) {
            guard case .failure(let error) = result else { continue }
            guard error.code != .cancelled else { throw error }
            failed.append(partitions[number].name.text)
            first = first ?? error
        }
        guard var error = first, failed.count < numbers.count else {
            if let first { throw first }
            return
        }
        error.isPartial = true
        let names = failed.prefix(8).joined(separator: ", ") + (failed.count > 8 ? " and \(failed.count - 8) more" : "")
        error.message =
            "\(numbers.count - failed.count) of the \(numbers.count) partitions of \(name) have the change, but not \(names) "
            + "(\(error.message)). Make the same change again when all of them answer"
        throw error
    }

    /// Makes a change and records who made it, even if it has reached only some partitions.
    package func change(
        _ record: ChangeRecord, _ make: () async throws(RedisError) -> Void
    ) async throws(RedisError) {
        do throws(RedisError) { try await make() } catch {
            if error.isPartial { await self.record(record) }
            throw error
        }
        await self.record(record)
    }

    /// Reads something of each job from the partition that knows it, or else from one that has a trace of it.
    func findKnown<T: Sendable>(
        _ ids: [String], _ isKnown: @escaping @Sendable (T) -> Bool, _ isEmpty: @escaping @Sendable (T) -> Bool,
        _ read: @escaping @Sendable (Queue, [String]) async throws(RedisError) -> [T]
    ) async throws(RedisError) -> [T?] {
        var found = try await find(ids) { queue, ids throws(RedisError) -> [T?] in
            try await read(queue, ids).map { isKnown($0) && !isEmpty($0) ? $0 : nil }
        }.map { $0?.value }
        let missing = found.indices.filter { found[$0] == nil }
        guard !missing.isEmpty else { return found }
        let traces = try await find(missing.map { ids[$0] }) { queue, ids throws(RedisError) -> [T?] in
            try await read(queue, ids).map { isEmpty($0) ? nil : $0 }
        }
        for (index, trace) in zip(missing, traces) { found[index] = trace?.value }
        return found
    }

    /// Reads something of each job where its id says, and of jobs that are not known there in all other partitions:
    /// members of batches, next steps and runs of schedules are where their batch, parent or schedule is.
    ///
    /// - Parameter read: Returns a value for each id, nil if the partition does not know the job.
    /// - Returns: For each id the value and the number of the partition.
    func find<T: Sendable>(
        _ ids: [String], _ read: @escaping @Sendable (Queue, [String]) async throws(RedisError) -> [T?]
    ) async throws(RedisError) -> [(value: T, partition: Int)?] {
        var found = [(value: T, partition: Int)?](repeating: nil, count: ids.count)
        let homes = ids.map { name.partition(of: $0) }
        func ask(_ wanted: [Int: [Int]]) async throws(RedisError) {
            let numbers = wanted.keys.sorted()
            let values = try await each(numbers) { queue, number throws(RedisError) in
                try await read(queue, (wanted[number] ?? []).map { ids[$0] })
            }
            for (number, values) in zip(numbers, values) {
                for (index, value) in zip(wanted[number] ?? [], values) {
                    if let value, found[index] == nil { found[index] = (value, number) }
                }
            }
        }
        try await ask(Dictionary(grouping: ids.indices) { homes[$0] })
        let missing = ids.indices.filter { found[$0] == nil }
        guard !missing.isEmpty else { return found }
        var others: [Int: [Int]] = [:]
        for number in partitions.indices {
            let wanted = missing.filter { homes[$0] != number }
            if !wanted.isEmpty { others[number] = wanted }
        }
        try await ask(others)
        return found
    }

    /// The number of the partition that knows each job; nil if none does.
    func locate(_ ids: [String]) async throws(RedisError) -> [Int?] {
        try await find(ids) { queue, ids throws(RedisError) -> [String?] in
            try await queue.fields(["state"], of: ids).map { $0["state"] }
        }.map { $0?.partition }
    }

    /// The jobs of a state, or the batches, of all partitions in one order. The index is a sorted set.
    ///
    /// Each partition would have to return `start` members to skip them. Instead, the score of the first one of the page
    /// is found by counting: some 30 rounds, however far down the list the page is.
    func merged(
        _ index: @escaping @Sendable (Keys) -> String, from start: Int, limit: Int, isDescending: Bool
    ) async throws(RedisError) -> [ListedJob] {
        var skipped = start
        var first: Int64?
        if start > limit {
            (first, skipped) = try await score(in: index, at: start, isDescending: isDescending)
        }
        let count = skipped + limit
        let pages = try await each { [first] queue throws(RedisError) in
            let from = first.map { "\($0)" } ?? (isDescending ? "+inf" : "-inf")
            let bounds: [any RedisArgument] = [
                index(queue.keys), from, isDescending ? "-inf" : "+inf", "BYSCORE",
            ]
            let order: [any RedisArgument] = (isDescending ? ["REV"] : []) + ["LIMIT", 0, count, "WITHSCORES"]
            let reply = try await queue.redis.send(Command(arguments: ["ZRANGE"] + bounds + order))
            let texts = (reply.array ?? []).map { $0.string ?? "" }
            return stride(from: 0, to: texts.count - 1, by: 2).map {
                ListedJob(id: texts[$0], timestamp: Int64(score: texts[$0 + 1]))
            }
        }
        let all = pages.joined().sorted {
            let (one, other) = isDescending ? ($1, $0) : ($0, $1)
            return (one.timestamp ?? 0, one.id) < (other.timestamp ?? 0, other.id)
        }
        return Array(all.dropFirst(skipped).prefix(limit))
    }

    /// The score of the member at `position` in the joined order, and how many members of this score come before it.
    private func score(
        in index: @escaping @Sendable (Keys) -> String, at position: Int, isDescending: Bool
    ) async throws(RedisError) -> (score: Int64?, skipped: Int) {
        func end(_ order: [String]) async throws(RedisError) -> [Int64] {
            try await each { queue throws(RedisError) in
                let range: [any RedisArgument] = ["ZRANGE", index(queue.keys), 0, 0]
                let reply = try await queue.redis.send(Command(arguments: range + order + ["WITHSCORES"]))
                return Int64(score: reply.array?.last?.string)
            }.compactMap(\.self)
        }
        /// How many jobs come before those of `score`.
        func before(_ score: Int64) async throws(RedisError) -> Int {
            try await each { queue throws(RedisError) in
                let bounds = isDescending ? ["(\(score)", "+inf"] : ["-inf", "(\(score)"]
                let command: [any RedisArgument] = ["ZCOUNT", index(queue.keys)] + bounds
                return try await queue.redis.send(Command(arguments: command)).int ?? 0
            }.reduce(0, +)
        }
        guard var low = try await end([]).min(), var high = try await end(["REV"]).max() else { return (nil, position) }
        // The last score before which at most `position` jobs come.
        while low < high {
            let middle = isDescending ? low + (high - low) / 2 : low + (high - low + 1) / 2
            let fits = try await before(middle) <= position
            switch (fits, isDescending) {
            case (true, false): low = middle
            case (false, false): high = middle - 1
            case (true, true): high = middle
            case (false, true): low = middle + 1
            }
        }
        return (low, position - (try await before(low)))
    }
}

extension QueueStats {
    /// The figures of a whole queue. It counts as paused if a partition is paused, because jobs stand still there.
    init(joining parts: [QueueStats]) {
        self = parts[0]
        partitions = parts.count
        pausedPartitions = parts.count { $0.isPaused }
        isPaused = pausedPartitions > 0
        maxRunning = parts.compactMap(\.maxRunning).min()
        let limits = parts.compactMap(\.maxRunning)
        allowedRunning =
            limits.count < parts.count
            ? nil
            : limits.reduce(Int64(0)) { sum, limit in
                let (total, overflows) = sum.addingReportingOverflow(Int64(limit))
                return overflows ? .max : total
            }
        queuedInPaused = parts.reduce(0) { $0 + ($1.isPaused ? $1.waiting.count : 0) }
        for (number, part) in parts.enumerated().dropFirst() {
            counts.merge(part.counts) { $0 + $1 }
            rejected += part.rejected
            waiting.append(part.waiting, ofPartition: number)
            isKnown = isKnown || part.isKnown
            // The oldest, because that partition may stand still.
            lastTick = [lastTick, part.lastTick].compactMap(\.self).min()
        }
    }
}

extension Sequence {
    /// The newest record of each worker that serves several partitions, sorted by the workers' names.
    func newestOfEachWorker() -> [(name: String, fields: [String: String])]
    where Element == (name: String, fields: [String: String]) {
        var newest: [String: [String: String]] = [:]
        for (name, fields) in self {
            if let known = newest[name], WorkerState.seen(known) >= WorkerState.seen(fields) { continue }
            newest[name] = fields
        }
        return newest.sorted { $0.key < $1.key }.map { (name: $0.key, fields: $0.value) }
    }
}
