package import Redis

/// One queue: the verbs of docs/bus.md over one Redis client.
package struct Queue: Sendable {
    package let name: QueueName
    package let keys: Keys
    package let policy: QueuePolicy
    package let redis: Redis
    let scripts: Scripts

    package init(_ name: QueueName, redis: Redis, policy: QueuePolicy = QueuePolicy()) {
        self.init(name, redis: redis, policy: policy, scripts: .product)
    }

    init(_ name: QueueName, redis: Redis, policy: QueuePolicy, scripts: Scripts) {
        (self.name, self.redis, self.policy, self.scripts) = (name, redis, policy, scripts)
        keys = Keys(name)
    }
}
