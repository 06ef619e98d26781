package import HaulRedis

extension Queue {
    /// The library of the functions that this version calls.
    package var nameOfFunctions: String { functions.all.name }

    /// Makes this version's functions known to Redis, so that users who may load none can call them. Returns on how many
    /// servers: of a cluster on all primaries.
    package func loadFunctions() async throws(RedisError) -> Int { try await redis.load(functions.all) }
}
