package import HaulRedis

/// A limit of jobs that begin in a time, as Lua/starts.lua reads it.
enum StartLimit {
    static let rule =
        "must be jobs per second, minute or hour like 10, \"10/s\", \"30/min\" or \"5/h\", from 1 to 1000000"

    /// Of a text without quotes.
    static func accepts(_ text: String) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 1 || parts.count == 2 && ["s", "min", "h"].contains(parts[1]) else { return false }
        guard parts[0].utf8.count <= 14, parts[0].utf8.allSatisfy({ 48...57 ~= $0 }) else { return false }
        return Int(parts[0]).map { 1...1_000_000 ~= $0 } ?? false
    }
}

extension Queue {
    /// Lets jobs begin that waited for a start. Returns after which time it is to be asked again; nil if it need not.
    package func pace(_ worker: WorkerIdentity) async throws(RedisError) -> Duration? {
        let reply = try await redis.run(
            functions.pace, keys: keys.given(to: worker.name),
            arguments: [Token.make(), worker.name, worker.instance])
        return reply.string.flatMap { Int64($0) }.map { .milliseconds($0) }
    }
}
