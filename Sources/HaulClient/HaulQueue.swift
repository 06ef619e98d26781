import HaulBus
import HaulRedis

/// A Haul queue, as a service uses it: push downloads, steer them, follow them, await their ends.
///
///     let queue = try HaulQueue(redis: "redis://127.0.0.1:6379")
///     let handle = try await queue.push(Job("https://example.org/a.iso"))
///     let result = try await handle.result(timeout: .seconds(600)).get()
///     print(result.file ?? "", result.bytes ?? 0)
///     await queue.close()
///
/// One object is enough for a service: it may be shared by any number of tasks, and keeps two connections, one for commands
/// and one for events, whatever the number of jobs. It connects when first used, and again after a failure.
///
/// Any language does the same with a plain LPUSH; docs/bus.md is the contract.
public struct HaulQueue: Sendable {
    /// The name of the queue.
    public var name: String { queue.name.text }

    let queue: Queue
    /// The connection of all events.
    let subscriber: Subscriber
    /// For what blocks a connection: what comes behind it would wait as well.
    let waiter: Redis

    /// Checks the URL and the name. Connects when first used.
    ///
    /// - Parameters:
    ///   - redis: `redis://[user:password@]host[:port][/db]`, `rediss://…` for TLS, `unix:///path`, or the form of
    ///     docs/operations.md for sentinels and clusters.
    ///   - queue: 1 to 64 of `A-Z a-z 0-9 . _ -`.
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

    /// Ends all connections. Calls that wait, and sequences, end with ``HaulError/Code-swift.struct/closed``; later calls throw it.
    public func close() async {
        await subscriber.close()
        await waiter.close()
        await queue.redis.close()
    }

    /// A job that is known by its id, whoever pushed it. Nothing is asked of Redis.
    ///
    /// - Parameters:
    ///   - id: The job's id.
    ///   - moment: The ``Job/at`` of the push whose end is awaited, unix ms; nil takes any end for the end. So a service
    ///     that was started again goes on waiting for what it pushed before.
    public func job(_ id: String, pushedAt moment: Int64? = nil) -> JobHandle {
        JobHandle(id: id, pushedAt: moment, of: self)
    }
}
