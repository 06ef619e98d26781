import HaulContract
package import HaulRedis

/// One queue: the operations of docs/reference/bus.md, through one Redis client.
///
/// Methods throw a `RedisError` if Redis cannot be reached, responds too late or refuses a command. If its reply cannot
/// be read, the code is `reply`. Calls of functions are idempotent.
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

/// The name of a queue: 1 to 64 characters of A-Z a-z 0-9 . _ -, so that it can be a Redis Cluster hash tag.
package struct QueueName: Sendable, Hashable, CustomStringConvertible {
    package let text: String

    package init?(_ text: String) {
        let allowed = text.utf8.allSatisfy {
            ($0 | 0x20) >= UInt8(ascii: "a") && ($0 | 0x20) <= UInt8(ascii: "z") || (48...57).contains($0)
                || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
        }
        guard (1...64).contains(text.utf8.count), allowed else { return nil }
        self.text = text
    }

    package static let `default` = QueueName("default")!
    package var description: String { text }
}

/// The lease of workers, and how long a queue keeps jobs. All workers of a queue should have the same policy.
package struct QueuePolicy: Sendable {
    /// A worker that does not tick for this long is lost, and its jobs run elsewhere. 2 s or more.
    package var lease: Duration = .seconds(8)
    /// How long ended jobs are kept, unless the queue's settings say otherwise.
    package var keepCompleted: Duration = .seconds(24 * 3600)
    package var keepFailed: Duration = .seconds(7 * 24 * 3600)
    package var keepCancelled: Duration = .seconds(24 * 3600)
    /// How many crashes of a worker a job may be part of, without a checkpoint in between. After one more it fails as
    /// `crash_loop`.
    package var crashLimit = 5

    package init() {}

    var retention: [Int] { [keepCompleted, keepFailed, keepCancelled].map(\.milliseconds) }
}
