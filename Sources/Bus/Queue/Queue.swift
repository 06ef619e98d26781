import HaulContract
package import HaulRedis

/// One queue: the operations of docs/reference/bus.md, through one Redis client.
///
/// Methods throw a `RedisError` if Redis cannot be reached, responds too late or refuses a command. If its reply cannot
/// be read, the code is `reply`. Calls of functions are idempotent.
package struct Queue: Sendable {
    package let name: QueueName
    package let policy: QueuePolicy
    /// The client of the first partition, or of the queue.
    package let redis: Redis
    /// The partitions of a queue that has some: Queue+Partitions.swift.
    package let partitions: [Queue]
    private let ownKeys: Keys
    /// Functions of a test; nil for the product's.
    private let ownFunctions: Functions?

    /// - Parameter connect: Makes a client for each further partition, because each may be on another node of a cluster.
    package init(
        _ name: QueueName, redis: Redis, policy: QueuePolicy = QueuePolicy(), connect: (() -> Redis)? = nil
    ) {
        self.init(name, redis: redis, policy: policy, functions: nil, connect: connect)
    }

    init(
        _ name: QueueName, redis: Redis, policy: QueuePolicy, functions: Functions?, connect: (() -> Redis)? = nil
    ) {
        (self.name, self.redis, self.policy, ownFunctions) = (name, redis, policy, functions)
        ownKeys = Keys(name)
        partitions = name.partitions.enumerated().map { index, name in
            let client = index == 0 ? redis : connect?() ?? Redis(redis.url, name: redis.name, patience: redis.patience)
            return Queue(name, redis: client, policy: policy, functions: functions)
        }
    }

    /// The functions that workers and `haul check` call. Their text is made at the first use, because most commands call
    /// none, and would begin some milliseconds later.
    var functions: Functions { ownFunctions ?? .product }

    /// The keys of an ordinary queue. A queue of partitions has none: each operation asks its partitions.
    package var keys: Keys {
        assert(partitions.isEmpty, "\(name) has partitions, and no keys of its own")
        return ownKeys
    }

    /// Closes the clients of all partitions.
    package func close() async {
        await redis.close()
        for partition in partitions.dropFirst() { await partition.redis.close() }
    }
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
