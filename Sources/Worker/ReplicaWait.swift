import HaulBus
import HaulRedis
import Logging
import Synchronization

/// Announces completed jobs once enough replicas have the settle, so that no failover revokes what was announced.
///
/// No run waits for the replicas. After a minute Redis itself announces the job, with a mark
/// (Lua/settle/announcements.lua).
final class ReplicaWait: Sendable {
    /// The timeout of one `WAIT`; further ones follow.
    private static let maxWait: Duration = .seconds(1)

    private let queue: Queue
    private let replicas: Int
    private let waiter: Redis
    private let log: Logger
    private let lastShortfall = Mutex<ContinuousClock.Instant?>(nil)
    private let (wakeUps, wakeUp) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(_ queue: Queue, replicas: Int, worker: String, log: Logger) {
        (self.queue, self.replicas, self.log) = (queue, replicas, log)
        waiter = Redis(queue.redis.url, name: "haul-\(worker)-replicas")
    }

    /// A completed job was settled.
    func record() { wakeUp.yield() }

    /// Announces until the task is cancelled, and then once more for the last settles.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                // Also announce jobs that other workers left unannounced, or this worker before a restart.
                while !Task.isCancelled {
                    self.wakeUp.yield()
                    try? await Task.sleep(for: .seconds(5))
                }
                self.wakeUp.finish()
            }
            for await _ in wakeUps {
                if Task.isCancelled { break }
                await announce()
            }
            group.cancelAll()
        }
        // A task of its own, since a cancelled task waits for nothing.
        await Task { _ = try? await queue.announceReplicated(to: replicas, within: Self.maxWait, on: waiter) }.value
        await waiter.close()
    }

    /// At shutdown: Redis is asked until `deadline`.
    func end(by deadline: ContinuousClock.Instant) async { await waiter.end(by: deadline) }

    /// Logs that too few replicas answered, unless that was also the case less than ten seconds ago.
    private func warn(tooFew count: Int) {
        let isNew = lastShortfall.withLock { last in
            defer { last = .now }
            return last.map { ContinuousClock.now - $0 > .seconds(10) } ?? true
        }
        guard isNew else { return }
        log.warning(
            "completed jobs are not reported yet: too few replicas have them",
            metadata: ["replicas": .stringConvertible(count), "wanted": .stringConvertible(replicas)])
    }

    private func announce() async {
        do {
            var isMore = true
            while isMore {
                switch try await queue.announceReplicated(to: replicas, within: Self.maxWait, on: waiter) {
                case .nothing: isMore = false
                case .announced: continue
                case .tooFew(let count):
                    warn(tooFew: count)
                    isMore = false
                }
            }
        } catch {
            if !Task.isCancelled {
                log.warning("Redis failed", metadata: ["while": "waiting for replicas", "reason": "\(error)"])
            }
        }
    }
}
