package import Redis

/// One queue: the verbs of docs/bus.md over one Redis client.
package struct Queue: Sendable {
    package let name: QueueName
    package let keys: Keys
    package let policy: QueuePolicy
    package let redis: Redis

    package init(_ name: QueueName, redis: Redis, policy: QueuePolicy = QueuePolicy()) {
        (self.name, self.redis, self.policy) = (name, redis, policy)
        keys = Keys(name)
    }
}
