import HaulExecutors

/// The transfers that wait for a rate limit, in order. On the loop's thread.
///
/// A transfer counts as waiting only in those of its buckets that hold it back. So a transfer that its own limit holds
/// back uses none of the credit of a limit that it has in common with others.
final class LimitedTasks {
    private(set) var queue: [UInt64] = []
    private var joined: [UInt64: [TokenBucket]] = [:]

    var isEmpty: Bool { queue.isEmpty }

    func join(_ task: TransferTask) {
        queue.append(task.id)
        enter(task)
    }

    func leave(_ task: TransferTask) {
        queue.removeAll { $0 == task.id }
        for bucket in joined.removeValue(forKey: task.id) ?? [] { bucket.leave() }
    }

    /// The transfer goes on waiting, perhaps for another of its buckets.
    func stay(_ task: TransferTask) {
        for bucket in joined[task.id] ?? [] { bucket.leave() }
        enter(task)
    }

    private func enter(_ task: TransferTask) {
        let now = monotonicNanoseconds()
        let closed = task.request.limits.filter { !$0.isOpen(now) }
        // If all buckets are open, the transfer waits behind those that came before.
        let holding = closed.isEmpty ? task.request.limits.filter(\.hasWaiting) : closed
        for bucket in holding { bucket.join() }
        joined[task.id] = holding
    }
}
