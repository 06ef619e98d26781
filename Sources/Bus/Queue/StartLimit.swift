package import HaulRedis

/// A limit of how many jobs start in a time. Lua/limits/starts.lua reads it by the same rules.
enum StartLimit {
    static let rule =
        "must be jobs per second, minute or hour like 10, \"10/s\", \"30/min\" or \"5/h\", from 1 to 1000000"

    /// Whether a text, which is not JSON, is a valid limit.
    static func accepts(_ text: String) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 1 || parts.count == 2 && ["s", "min", "h"].contains(parts[1]) else { return false }
        guard parts[0].utf8.count <= 14, parts[0].utf8.allSatisfy({ 48...57 ~= $0 }) else { return false }
        return Int(parts[0]).map { 1...1_000_000 ~= $0 } ?? false
    }
}

extension Queue {
    /// Lets jobs start that wait for a start.
    ///
    /// - Returns: After which time to call again; nil if that is not necessary.
    package func pace(_ worker: WorkerIdentity) async throws(RedisError) -> Duration? {
        let reply = try await redis.run(
            functions.pace, keys: keys.given(to: worker.name),
            arguments: [Token.make(), worker.name, worker.instance])
        return reply.string.flatMap { Int64($0) }.map { .milliseconds($0) }
    }
}
