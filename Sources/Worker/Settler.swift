import HaulBus
import HaulRedis
import Synchronization

/// Settles runs in batches. Runs that end while calls are in progress are collected for the next call. So the busier a
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
        let nextToken: String?
        /// The run has a call of its own.
        let isAlone: Bool
        let continuation: CheckedContinuation<Result<Reply, RedisError>, Never>
    }

    private struct State: Sendable {
        var waiting: [Entry] = []
        /// Calls in progress.
        var calls = 0
    }

    /// Two, so that this worker can handle the reply to one call while Redis executes the other.
    private static let maxCalls = 2

    /// The maximum number of runs in one call. That takes Redis at most 2 ms, in which it serves no other client. A run
    /// that has not ended its job counts three times, because Redis cancels the job or puts it back.
    private static let maxRuns = 32

    /// The maximum number of bytes of responses in one call, which has at least one run in any case.
    private static let maxBytes = 1 << 20

    private let queue: Queue
    private let state = Mutex(State())

    init(_ queue: Queue) { self.queue = queue }

    /// Settles a run. If there is a `nextToken`, the same call claims the next job for `worker` under this token.
    ///
    /// - Parameter isAlone: Redis has refused calls with this run, so no other run joins it.
    func send(
        _ end: RunEnd, as worker: WorkerIdentity, nextToken: String?, isAlone: Bool = false
    ) async throws(RedisError) -> Reply {
        try await withCheckedContinuation { continuation in
            let mustDrain = state.withLock { state in
                state.waiting.append(
                    Entry(
                        end: end, worker: worker, nextToken: nextToken, isAlone: isAlone, continuation: continuation))
                guard state.calls < Self.maxCalls else { return false }
                state.calls += 1
                return true
            }
            if mustDrain { Task(executorPreference: Redis.executor) { await self.drain() } }
        }.get()
    }

    private static func batch(of waiting: [Entry]) -> [Entry] {
        if waiting.first?.isAlone == true { return Array(waiting.prefix(1)) }
        var (bytes, runs) = (0, 0)
        let count = waiting.prefix {
            bytes += $0.end.estimatedBytes
            runs += $0.end.settlement.endsJob ? 1 : 3
            return bytes <= maxBytes && runs <= maxRuns && !$0.isAlone
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
                batch.map(\.end), worker: batch[batch.count - 1].worker, next: batch.compactMap(\.nextToken))
            // The claims are in the order of the tokens. If there are fewer claims than tokens, the last one says why,
            // so it is the reply to all remaining tokens.
            var claims = reply.next[...]
            for (entry, isOurs) in zip(batch, reply.isOurs) {
                let next = entry.nextToken == nil ? nil : claims.count > 1 ? claims.popFirst() : claims.first
                entry.continuation.resume(returning: isOurs.map { Reply(isOurs: $0, next: next) })
            }
            // Redis may settle only the first runs, if these are in many batches. The others are sent again.
            let rest = Array(batch.dropFirst(reply.isOurs.count))
            state.withLock { $0.waiting = rest + $0.waiting }
        } catch {
            // If Redis cannot be reached, the waiting entries fail as well. Trying a call for each batch would exceed
            // the grace time.
            let abandoned = state.withLock { state in
                defer { if error.isTransient { state.waiting = [] } }
                return error.isTransient ? state.waiting : []
            }
            for entry in batch + abandoned { entry.continuation.resume(returning: .failure(error)) }
        }
    }
}
