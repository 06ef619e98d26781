import HaulBus
import HaulRedis
import Synchronization

/// Settles runs in batches. While calls are in progress, runs that end are collected for the next one: the busier a
/// worker is, the less each job costs Redis.
final class Settler: Sendable {
    struct Reply: Sendable {
        /// False if another worker has the job.
        let isOurs: Bool
        /// The next claim, or why there is none; nil if none was requested.
        let next: ClaimReply?
    }

    private struct Entry: Sendable {
        let end: RunEnd
        let worker: WorkerIdentity
        let next: String?
        let answer: CheckedContinuation<Result<Reply, RedisError>, Never>
    }

    private struct State: Sendable {
        var waiting: [Entry] = []
        /// Calls in progress.
        var calls = 0
    }

    /// While Redis works on one, this worker works on the reply to the other.
    private static let maxCalls = 2

    /// The maximum number of runs in one call. That takes Redis at most 2 ms, in which it serves no other client. A run
    /// that has not ended its job counts three times, because Redis cancels the job or puts it back.
    private static let maxRuns = 32

    /// The maximum number of bytes of responses in one call, which has at least one run in any case.
    private static let maxBytes = 1 << 20

    private let queue: Queue
    private let state = Mutex(State())

    init(_ queue: Queue) { self.queue = queue }

    /// Settles a run, and claims a job for `worker` under the token `next`, if that is given.
    func send(_ end: RunEnd, as worker: WorkerIdentity, next: String?) async throws(RedisError) -> Reply {
        try await withCheckedContinuation { continuation in
            let isCalling = state.withLock { state in
                state.waiting.append(Entry(end: end, worker: worker, next: next, answer: continuation))
                guard state.calls < Self.maxCalls else { return false }
                state.calls += 1
                return true
            }
            if isCalling { Task(executorPreference: Redis.executor) { await self.drain() } }
        }.get()
    }

    private static func batch(of waiting: [Entry]) -> [Entry] {
        var (bytes, runs) = (0, 0)
        let count = waiting.prefix {
            bytes += $0.end.weight
            runs += $0.end.settlement.endsJob ? 1 : 3
            return bytes <= maxBytes && runs <= maxRuns
        }.count
        return Array(waiting.prefix(max(1, count)))
    }

    private func drain() async {
        while true {
            let batch = state.withLock { state in
                let batch = Self.batch(of: state.waiting)
                state.waiting.removeFirst(batch.count)
                if batch.isEmpty { state.calls -= 1 }
                return batch
            }
            if batch.isEmpty { return }
            await call(batch)
        }
    }

    private func call(_ batch: [Entry]) async {
        do throws(RedisError) {
            // All entries belong to this process. The claims are made under its last registration.
            let reply = try await queue.settle(
                batch.map(\.end), worker: batch[batch.count - 1].worker, next: batch.compactMap(\.next))
            // Claims come in the order of their tokens. The last reply says why there are no more.
            var claims = reply.next[...]
            for (entry, isOurs) in zip(batch, reply.isOurs) {
                let next = entry.next == nil ? nil : claims.count > 1 ? claims.popFirst() : claims.first
                entry.answer.resume(returning: isOurs.map { Reply(isOurs: $0, next: next) })
            }
            let rest = Array(batch.dropFirst(reply.isOurs.count))
            state.withLock { $0.waiting = rest + $0.waiting }
        } catch {
            // If Redis itself has failed, the waiting entries fail, too. Call after call would exceed the grace time.
            let behind = state.withLock { state in
                defer { if error.isTransient { state.waiting = [] } }
                return error.isTransient ? state.waiting : []
            }
            for entry in batch + behind { entry.answer.resume(returning: .failure(error)) }
        }
    }
}
