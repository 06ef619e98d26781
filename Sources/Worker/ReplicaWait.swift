import HaulBus
import HaulRedis
import Logging
import Synchronization

/// Tells that jobs are completed once enough replicas have it, so that no failover takes back what was told.
///
/// No run waits for it. Redis tells by itself after a minute (Lua/overdue.lua), with a mark, whatever becomes of this worker.
final class ReplicaWait: Sendable {
    /// For one answer of the replicas; more follow.
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
    func note() { nudge.yield() }

    /// Tells until the task is cancelled, then once more of what was settled last.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                // What others could not tell, or what this worker could not before it was started again.
                while !Task.isCancelled {
                    self.nudge.yield()
                    try? await Task.sleep(for: .seconds(5))
                }
                self.nudge.finish()
            }
            for await _ in nudges {
                if Task.isCancelled { break }
                await tell()
            }
            group.cancelAll()
        }
        // A task of its own: in a cancelled one nothing would be waited for.
        await Task { _ = try? await queue.tellReplicated(to: replicas, within: Self.once, on: waiter) }.value
        await waiter.close()
    }

    /// Until when Redis is asked, now that the worker is to end.
    func end(by deadline: ContinuousClock.Instant) async { await waiter.end(by: deadline) }

    /// Says that too few replicas answered, once in ten seconds.
    private func complain(_ count: Int) {
        let isNews = complained.withLock { last in
            defer { last = .now }
            return last.map { ContinuousClock.now - $0 > .seconds(10) } ?? true
        }
        guard isNews else { return }
        log.warning(
            "completed jobs are not told of yet: too few replicas have them",
            metadata: ["replicas": "\(count)", "wanted": "\(replicas)"])
    }

    private func tell() async {
        do {
            var isMore = true
            while isMore {
                switch try await queue.tellReplicated(to: replicas, within: Self.once, on: waiter) {
                case .nothing: isMore = false
                case .told: continue
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
