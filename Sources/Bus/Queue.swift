package import HaulRedis

/// One queue: the verbs of docs/bus.md over one Redis client.
package struct Queue: Sendable {
    package let name: QueueName
    package let keys: Keys
    package let policy: QueuePolicy
    package let redis: Redis
    let functions: Functions

    package init(_ name: QueueName, redis: Redis, policy: QueuePolicy = QueuePolicy()) {
        self.init(name, redis: redis, policy: policy, functions: .product)
    }

    init(_ name: QueueName, redis: Redis, policy: QueuePolicy, functions: Functions) {
        (self.name, self.redis, self.policy, self.functions) = (name, redis, policy, functions)
        keys = Keys(name)
    }
}
