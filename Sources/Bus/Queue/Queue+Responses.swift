package import HaulRedis

/// How many bytes of responses a queue keeps.
package struct KeptResponses: Sendable, Equatable {
    /// Bytes of header fields and bodies in the jobs' hashes.
    package let bytes: Int64
    /// The maximum number of bytes, by the setting `max_responses_bytes`.
    package let limit: Int64

    /// The field of `response_bytes` with the sum: Lua/core/responses.lua.
    static let sum = "in all"
}

extension Queue {
    package func keptResponses() async throws(RedisError) -> KeptResponses {
        guard partitions.isEmpty else {
            let all = try await each { queue throws(RedisError) in try await queue.keptResponses() }
            return KeptResponses(bytes: all.reduce(0) { $0 + $1.bytes }, limit: all.reduce(0) { $0 + $1.limit })
        }
        let replies = try await redis.pipeline([
            .command(Command("HGET", keys.responseBytes, KeptResponses.sum)),
            .command(Command("HGET", keys.settings, QueueSetting.maxResponsesBytes.name)),
        ])
        let limit = try replies[1].get().string.flatMap {
            QueueSetting.maxResponsesBytes.accepts($0) ? Int64($0) : nil
        }
        return KeptResponses(
            bytes: try replies[0].get().string.flatMap { Int64($0) } ?? 0,
            limit: limit ?? Int64(QueueSetting.defaultResponsesBytes))
    }
}

extension Inspection {
    /// Checks that the sum in `response_bytes` is the sum of the other fields.
    ///
    /// While responses come and go, the pages of the hash belong to different points in time. So only a difference that
    /// is the same in three checks is a finding.
    func checkSumOfResponses(repairing: Bool) async throws(RedisError) -> [Finding] {
        var difference: Int64?
        for attempt in 0..<3 {
            if attempt > 0 { try? await Task.sleep(for: .milliseconds(300)) }
            guard let found = try await differenceOfResponses(), found != 0, difference ?? found == found else {
                return []
            }
            difference = found
        }
        guard let difference else { return [] }
        if repairing {
            // HINCRBY, since the sum may have changed meanwhile.
            let key = queue.keys.responseBytes
            try await queue.redis.send(Command("HINCRBY", key, KeptResponses.sum, difference))
        }
        return [
            Finding(
                queue.keys.responseBytes, "the bytes of all responses are not the sum of those of each",
                "--repair corrects it", isRepaired: repairing)
        ]
    }

    /// The sum of the fields minus the counted sum; nil if the counted sum changes meanwhile or cannot be read.
    private func differenceOfResponses() async throws(RedisError) -> Int64? {
        guard let before = try await countedResponses() else { return nil }
        var sizes: [String: Int64] = [:]
        try await forEachPair(of: queue.keys.responseBytes) { sizes[$0] = Int64(field: $1) }
        sizes[KeptResponses.sum] = nil
        guard try await countedResponses() == before else { return nil }
        return sizes.values.reduce(0, +) &- before
    }

    private func countedResponses() async throws(RedisError) -> Int64? {
        let reply = try await queue.redis.pipeline([
            .command(Command("HGET", queue.keys.responseBytes, KeptResponses.sum))
        ])[0]
        if case .error = reply { return nil }
        return reply.string.flatMap { Int64($0) } ?? 0
    }
}
