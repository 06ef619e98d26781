package import HaulRedis

/// One queue: the operations of docs/reference/bus.md, through one Redis client.
///
/// Throwing methods throw `RedisError`: if Redis cannot be reached or answers too late, if it refuses a command, or
/// with the code `reply` if its answer cannot be read. Every call of a function may be sent again.
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
