import HaulBus
import HaulRedis
import Synchronization

/// Tells Redis how runs ended. While it is being told of some, those that end meanwhile are gathered, and told together with
/// the next call: the busier a worker is, the less each job costs Redis.
final class Settler: Sendable {
    struct Reply: Sendable {
        /// False if the run was no longer ours.
        let isOurs: Bool
        /// The next claim, or why there is none; nil if none was asked for.
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
        /// Calls that are under way.
        var calls = 0
    }

    /// While Redis works on one, this worker works on the reply to the other.
    private static let mostCalls = 2

    /// Redis does nothing else meanwhile: this takes it some 2 ms.
    private static let most = 32

    /// So many bytes of responses go into one call, but one end in any case.
    private static let mostBytes = 1 << 20

    private let queue: Queue
    private let state = Mutex(State())

    init(_ queue: Queue) { self.queue = queue }

    /// Ends a run, and claims a job for `worker` under the token `next` if that is given.
    func send(_ end: RunEnd, as worker: WorkerIdentity, next: String?) async throws(RedisError) -> Reply {
        try await withCheckedContinuation { continuation in
            let isCalling = state.withLock { state in
                state.waiting.append(Entry(end: end, worker: worker, next: next, answer: continuation))
                guard state.calls < Self.mostCalls else { return false }
                state.calls += 1
                return true
            }
            if isCalling { Task(executorPreference: Redis.executor) { await self.drain() } }
        }.get()
    }

    private static func batch(of waiting: [Entry]) -> [Entry] {
        var bytes = 0
        let count = waiting.prefix(most).prefix {
            bytes += $0.end.weight
            return bytes <= mostBytes
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
            // All are this process'; claims are made under its last registration.
            let reply = try await queue.settle(
                batch.map(\.end), worker: batch[batch.count - 1].worker, next: batch.compactMap(\.next))
            // Claims come in the order of their tokens; the last reply says why there are no more.
            var claims = reply.next[...]
            for (entry, isOurs) in zip(batch, reply.isOurs) {
                let next = entry.next == nil ? nil : claims.count > 1 ? claims.popFirst() : claims.first
                entry.answer.resume(returning: isOurs.map { Reply(isOurs: $0, next: next) })
            }
        } catch {
            // If Redis itself has failed, those behind would learn it one call after another, and exceed the grace time.
            let behind = state.withLock { state in
                defer { if error.isTransient { state.waiting = [] } }
                return error.isTransient ? state.waiting : []
            }
            for entry in batch + behind { entry.answer.resume(returning: .failure(error)) }
        }
    }
}
