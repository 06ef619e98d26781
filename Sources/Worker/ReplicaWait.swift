import HaulBus
import HaulRedis
import Logging
import Synchronization

/// Announces completed jobs once enough replicas have the settle, so that no failover takes back what was announced.
///
/// No run waits for the replicas. After a minute Redis itself announces the job, with a mark
/// (Lua/settle/announcements.lua).
final class ReplicaWait: Sendable {
    /// The longest time of one `WAIT`. Others follow.
    private static let once: Duration = .seconds(1)

    private let queue: Queue
    private let replicas: Int
    private let waiter: Redis
    private let log: Logger
    private let complained = Mutex<ContinuousClock.Instant?>(nil)
    private let (nudges, nudge) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(_ queue: Queue, replicas: Int, worker: String, log: Logger) {
        (self.queue, self.replicas, self.log) = (queue, replicas, log)
        waiter = Redis(queue.redis.url, name: "haul-\(worker)-replicas")
    }

    /// A completed job was settled.
    func record() { nudge.yield() }

    /// Announces until the task is cancelled, and then once more for the last settles.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                // Also announce jobs that other workers left unannounced, or this worker before a restart.
                while !Task.isCancelled {
                    self.nudge.yield()
                    try? await Task.sleep(for: .seconds(5))
                }
                self.nudge.finish()
            }
            for await _ in nudges {
                if Task.isCancelled { break }
                await announce()
            }
            group.cancelAll()
        }
        // A task of its own, since a cancelled task waits for nothing.
        await Task { _ = try? await queue.announceReplicated(to: replicas, within: Self.once, on: waiter) }.value
        await waiter.close()
    }

    /// At shutdown: Redis is asked until `deadline`.
    func end(by deadline: ContinuousClock.Instant) async { await waiter.end(by: deadline) }

    /// Logs that too few replicas answered, unless the same was found less than ten seconds ago.
    private func complain(_ count: Int) {
        let isNews = complained.withLock { last in
            defer { last = .now }
            return last.map { ContinuousClock.now - $0 > .seconds(10) } ?? true
        }
        guard isNews else { return }
        log.warning(
            "completed jobs are not reported yet: too few replicas have them",
            metadata: ["replicas": .stringConvertible(count), "wanted": .stringConvertible(replicas)])
    }

    private func announce() async {
        do {
            var isMore = true
            while isMore {
                switch try await queue.announceReplicated(to: replicas, within: Self.once, on: waiter) {
                case .nothing: isMore = false
                case .announced: continue
                case .tooFew(let count):
                    complain(count)
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
