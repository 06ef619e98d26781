import HaulRedis
import Synchronization

/// The connections of sequences that are being iterated, so that closing the queue ends them at once.
final class OpenConnections: Sendable {
    /// nil once the queue was closed.
    private let connections = Mutex<[ObjectIdentifier: Redis]?>([:])

    /// A client of its own for a sequence. It closes with the last reference to the returned object, or with the queue.
    func open(_ make: () -> Redis) -> Held {
        let redis = make()
        let isOpen = connections.withLock { connections in
            connections?[ObjectIdentifier(redis)] = redis
            return connections != nil
        }
        if !isOpen { Task { await redis.close() } }
        return Held(redis, by: self)
    }

    func close() async {
        let open = connections.withLock { connections in
            defer { connections = nil }
            return connections ?? [:]
        }
        for redis in open.values { await redis.close() }
    }

    fileprivate func release(_ redis: Redis) {
        _ = connections.withLock { $0?.removeValue(forKey: ObjectIdentifier(redis)) }
    }

    final class Held: Sendable {
        let redis: Redis
        private let owner: OpenConnections

        fileprivate init(_ redis: Redis, by owner: OpenConnections) { (self.redis, self.owner) = (redis, owner) }

        deinit { owner.release(redis) }
    }
}
