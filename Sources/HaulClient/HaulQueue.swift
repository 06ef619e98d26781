import HaulBus
import HaulRedis

/// A client of a Haul queue: it pushes jobs, controls them, follows their events, and waits for their results.
///
///     let queue = try HaulQueue(redis: "redis://127.0.0.1:6379")
///     let handle = try await queue.push(Job("https://example.org/a.iso"))
///     let result = try await handle.result(timeout: .seconds(600)).get()
///     print(result.file ?? "", result.bytes ?? 0)
///     await queue.close()
///
/// One object is enough for a service. Any number of tasks may share it. It keeps one connection for commands, one for
/// events, and one for pushes that wait for replicas. Each connects on first use, and again after a failure.
///
/// A program in any language can do the same with a plain LPUSH. docs/reference/bus.md is the contract.
public struct HaulQueue: Sendable {
    /// The name of the queue.
    public var name: String { queue.name.text }

    let queue: Queue
    /// The connection for all events.
    let subscriber: Subscriber
    /// A connection for WAIT. A command that blocks would delay all later commands of its connection.
    let waiter: Redis

    /// Checks the URL and the name. Does not connect yet.
    ///
    /// - Parameters:
    ///   - redis: `redis://[user:password@]host[:port][/db]`, `rediss://…` for TLS, `unix:///path`, or a URL for
    ///     sentinels or a cluster as in docs/operate/redis.md.
    ///   - queue: 1 to 64 of the characters `A-Z a-z 0-9 . _ -`.
    /// - Throws: ``HaulError/Code-swift.struct/invalidURL``, ``HaulError/Code-swift.struct/invalidQueueName``.
    public init(redis: String, queue: String = "default") throws(HaulError) {
        guard let name = QueueName(queue) else {
            throw HaulError(.invalidQueueName, "a queue's name is 1 to 64 of the characters A-Z a-z 0-9 . _ -")
        }
        let url: RedisURL
        do { url = try RedisURL(redis) } catch { throw HaulError(error) }
        self.queue = Queue(name, redis: Redis(url, name: "haul-client"))
        subscriber = Subscriber(url, name: "haul-client-events")
        waiter = Redis(url, name: "haul-client-waits")
    }

    /// Closes all connections. Waiting calls, sequences and later calls throw ``HaulError/Code-swift.struct/closed``.
    public func close() async {
        await subscriber.close()
        await waiter.close()
        await queue.redis.close()
    }

    /// A handle of the job with this id, no matter which service pushed the job. Sends nothing to Redis.
    ///
    /// - Parameters:
    ///   - id: The job's id.
    ///   - timestamp: The ``Job/at`` of a push, in unix milliseconds. The handle then ignores an end of the job that is
    ///     older than this push. So a service that restarts can wait for its earlier pushes. nil accepts any end.
    public func job(_ id: String, pushedAt timestamp: Int64? = nil) -> JobHandle {
        JobHandle(id: id, pushedAt: timestamp, of: self)
    }
}
