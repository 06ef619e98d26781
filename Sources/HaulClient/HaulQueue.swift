import HaulBus
import HaulRedis
public import Logging

/// A client of a Haul queue: it pushes jobs, controls them, follows their events, and waits for their results.
///
///     let queue = try HaulQueue(redis: "redis://127.0.0.1:6379")
///     let handle = try await queue.push(Job("https://example.org/a.iso"))
///     let result = try await handle.result(timeout: .seconds(600)).get()
///     print(result.file ?? "", result.bytes ?? 0)
///     await queue.close()
///
/// One object is enough for a service. Any number of tasks may share it. It keeps one connection for commands, one for
/// events, one for pushes that wait for replicas, and one for each consumer of replies. Each connects on first use, and
/// again after a failure.
///
/// A program in any language can do the same with a plain LPUSH. docs/reference/bus.md is the contract.
public struct HaulQueue: Sendable {
    /// The name of the queue.
    public var name: String { queue.name.text }

    let queue: Queue
    /// The connection for all events.
    let subscriber: Subscriber
    /// Connections for WAIT, one for each partition. A command that blocks would delay all later commands of its
    /// connection.
    let waiters: [Redis]
    /// The connections of consumers of replies.
    let connections = OpenConnections()
    let logger: Logger

    /// Checks the URL and the name. Does not connect yet.
    ///
    /// - Parameters:
    ///   - redis: `redis://[user:password@]host[:port][/db]`, `rediss://…` for TLS, `unix:///path`, or a URL for
    ///     sentinels or a cluster as in docs/operate/redis.md.
    ///   - queue: 1 to 64 of the characters `A-Z a-z 0-9 . _ -`, and `#8` behind them for a queue of 8 partitions.
    ///   - logger: Gets a warning when a connection is lost or a reply is ignored, and a notice when a connection is
    ///     back. Lines contain no password, no URL of a job, no `meta` and no response. Without a logger nothing is
    ///     logged.
    /// - Throws: ``HaulError/Code-swift.struct/invalidURL``, ``HaulError/Code-swift.struct/invalidQueueName``.
    public init(redis: String, queue: String = "default", logger: Logger? = nil) throws(HaulError) {
        guard let name = QueueName(queue) else {
            throw HaulError(.invalidQueueName, "a queue's name is \(QueueName.rule)")
        }
        let url: RedisURL
        do { url = try RedisURL(redis) } catch { throw HaulError(error) }
        var logger = logger ?? Logger(label: "haul-client") { _ in SwiftLogNoOpLogHandler() }
        logger[metadataKey: "queue"] = "\(name)"
        self.logger = logger
        let report = Self.log("commands", to: logger)
        self.queue = Queue(
            name, redis: Redis(url, name: "haul-client", onChange: report),
            connect: { Redis(url, name: "haul-client", onChange: report) })
        subscriber = Subscriber(url, name: "haul-client-events", onChange: Self.log("events", to: logger))
        waiters = self.queue.parts.map { [logger] _ in
            Redis(url, name: "haul-client-waits", onChange: Self.log("waits", to: logger))
        }
    }

    /// A further client of the same Redis.
    func client(for purpose: String) -> Redis {
        Redis(queue.redis.url, name: "haul-client-\(purpose)", onChange: Self.log(purpose, to: logger))
    }

    /// Logs the loss of a connection and its recovery.
    private static func log(_ purpose: String, to logger: Logger) -> @Sendable (ConnectionChange) -> Void {
        { change in
            switch change {
            case .lost(let error):
                logger.warning(
                    "no connection to Redis", metadata: ["connection": "\(purpose)", "error": "\(error.message)"])
            case .recovered(let time):
                logger.notice(
                    "Redis is back", metadata: ["connection": "\(purpose)", "seconds": "\(time.components.seconds)"])
            }
        }
    }

    /// Keeps the connection for commands open until the task is cancelled, and then closes the queue.
    ///
    /// All other calls connect by themselves. `run` is for a service whose tasks are structured: a wrong password ends
    /// it at its start and not with the first push, a lost connection is opened again and logged even while nothing is
    /// pushed, and nothing is left open at the end. It has the shape of `Service` of swift-service-lifecycle, so one
    /// line makes the queue a member of a service group:
    ///
    ///     extension HaulQueue: @retroactive Service {}
    ///
    ///     let group = ServiceGroup(
    ///         configuration: .init(
    ///             services: [.init(service: queue), .init(service: orders)],
    ///             cancellationSignals: [.sigterm, .sigint], logger: logger))
    ///     try await group.run()
    ///
    /// The group must cancel its services, as with the signals above, because `run` has no other way to end. To end it
    /// with a graceful shutdown, call it in a service of your own within `cancelWhenGracefulShutdown`. Services that
    /// use the queue stand behind it in the list, so that they end first.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/refused`` if Redis refuses the password or its certificate is not
    ///   trusted. Nothing else ends it before the task is cancelled, except for ``close()``.
    public func run() async throws(HaulError) {
        while !Task.isCancelled {
            do { try await queue.ping() } catch {
                let error = HaulError(error)
                if error.code == .closed { return }
                if error.code == .refused {
                    await close()
                    throw error
                }
            }
            try? await Task.sleep(for: .seconds(5))
        }
        await close()
    }

    /// Closes all connections. Waiting calls, sequences and later calls throw ``HaulError/Code-swift.struct/closed``.
    public func close() async {
        await subscriber.close()
        for waiter in waiters { await waiter.close() }
        await connections.close()
        await queue.close()
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
