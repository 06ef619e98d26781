import HaulContract
import HaulRedis

// Checks batches: the counts must match the members, and a pending member must be a job that has not ended.

extension Inspection {
    /// The time to live, in milliseconds, of a batch that had none: seven days.
    private static let repairedTimeToLive = 604_800_000

    func checkBatches(repairing: Bool) async throws(RedisError) -> [Finding] {
        var names: Set<String> = []
        for kind in [KeyName.batch, .members] {
            try await forEachPageOfKeys(kind) { keys throws(RedisError) in
                names.formUnion(keys.compactMap { KeyName.read($0.dropFirst(queue.keys.prefix.count))?.subject })
            }
        }
        var findings: [Finding] = []
        for name in names.sorted() {
            let keys = [(queue.keys.batch(name), KeyName.batch), (queue.keys.members(name), .members)]
            let wrongTypes = zip(keys, try await types(of: keys.map(\.0))).compactMap { key, type -> Finding? in
                guard let type, type != key.1.type else { return nil }
                return wrongType(key.0, type, key.1.type, "jobs of this batch are not counted")
            }
            findings += wrongTypes
            guard wrongTypes.isEmpty else { continue }
            findings += try await checkCounts(of: name)
            findings += try await checkExpiry(of: name, keys.map(\.0), repairing: repairing)
        }
        return findings
    }

    /// Compares the counts with a recount. If a count changes meanwhile, the comparison is repeated, three times at
    /// most.
    private func checkCounts(of name: String) async throws(RedisError) -> [Finding] {
        for _ in 0..<3 {
            let before = try await counts(of: name)
            var members: [String: String] = [:]
            try await forEachPair(of: queue.keys.members(name)) { members[$0] = $1 }
            guard try await counts(of: name) == before else { continue }
            for (state, count) in zip(BatchState.allCases, before) {
                let found = members.values.count { $0 == state.rawValue }
                guard found != count else { continue }
                return [
                    Finding(
                        queue.keys.batch(name), "it counts \(count) members as \(state.rawValue), and has \(found)",
                        "HSET it to \(found)")
                ]
            }
            return try await checkPending(
                of: name, members.filter { $0.value == BatchState.pending.rawValue }.map(\.key))
        }
        return []
    }

    private func counts(of name: String) async throws(RedisError) -> [Int] {
        let fields = BatchState.allCases.map(\.rawValue)
        let reply = try await queue.redis.send(Command(arguments: ["HMGET", queue.keys.batch(name)] + fields))
        return (reply.array ?? []).map { $0.string.flatMap { Int($0) } ?? 0 }
    }

    /// Finds pending members whose jobs are gone or have ended. Checks them again after 0.3 s, because a job that is
    /// just ending looks the same.
    private func checkPending(of name: String, _ ids: [String]) async throws(RedisError) -> [Finding] {
        func lost(_ ids: [String]) async throws(RedisError) -> [String] {
            let states = try await queue.values(["state", "waiting"], of: ids)
            let members = try await queue.redis.pipeline(
                ids.map { .command(Command("HGET", queue.keys.members(name), $0)) })
            return zip(ids, zip(states, members)).filter { _, replies in
                let (fields, member) = replies
                let state = fields[0].flatMap { JobState(rawValue: String(decoding: $0, as: UTF8.self)) }
                let isWaiting = fields[1] != nil
                // A completed job that waits for replicas is pending until its event is published.
                return member.string == BatchState.pending.rawValue && state?.isFinal ?? true && !isWaiting
            }.map(\.0)
        }
        var suspects = try await lost(ids)
        guard !suspects.isEmpty else { return [] }
        try? await Task.sleep(for: .milliseconds(300))
        suspects = try await lost(suspects)
        return suspects.sorted().map {
            Finding(
                queue.keys.members(name), "\($0) is pending, and there is no such job",
                "push the job again with this batch")
        }
    }

    /// Finds batches that have ended but have no time to live.
    private func checkExpiry(
        of name: String, _ keys: [String], repairing: Bool
    ) async throws(RedisError) -> [Finding] {
        guard let record = try await queue.batch(name), record.counts[.pending] == 0 else { return [] }
        let times = try await queue.redis.pipeline(keys.map { .command(Command("PTTL", $0)) })
        let withoutExpiry = zip(keys, times).filter { $1.int == -1 }.map(\.0)
        // A member may have joined since.
        guard !withoutExpiry.isEmpty, try await queue.batch(name)?.counts[.pending] == 0 else { return [] }
        if repairing {
            _ = try await queue.redis.pipeline(
                withoutExpiry.map { .command(Command("PEXPIRE", $0, Self.repairedTimeToLive, "NX")) })
        }
        return withoutExpiry.map {
            Finding($0, "it would never expire", "--repair sets a time to live", isRepaired: repairing)
        }
    }
}
