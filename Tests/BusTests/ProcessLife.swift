import HaulBus
import HaulRedis
import HaulTestSupport

/// The subscription by which Redis knows that a worker's process lives: Lua/tick/disconnected.lua.
final class ProcessLife: Sendable {
    private let queue: Queue
    private let channel: String
    private let task: Task<Void, Never>

    init(of worker: WorkerIdentity, in queue: Queue) async {
        self.queue = queue
        channel = queue.keys.alive(worker.instance)
        let subscription = Subscription(queue.redis.url, name: "life", channels: [channel])
        let (begins, feed) = AsyncStream<Void>.makeStream()
        task = Task { for await case .subscribed in subscription { feed.finish() } }
        for await _ in begins {}
    }

    deinit { task.cancel() }

    /// Returns when Redis has noticed it.
    func end() async throws {
        task.cancel()
        try await eventually("the subscription to end") {
            try await self.queue.redis.send(Command("PUBSUB", "NUMSUB", self.channel)).array?.last?.int == 0
        }
    }
}
