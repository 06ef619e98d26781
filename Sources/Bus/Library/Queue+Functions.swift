package import HaulRedis

extension Queue {
    /// The name of the library that this version calls. It contains a digest of the source.
    package var nameOfFunctions: String { functions.all.name }

    /// Loads this version's library, so that users without the right to load it can call its functions.
    ///
    /// - Returns: On how many servers it was loaded: one, or all primaries of a cluster.
    package func loadFunctions() async throws(RedisError) -> Int { try await redis.load(functions.all) }
}
