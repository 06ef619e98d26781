import HaulExecutors

/// The transfers that wait for a rate limit, in order, on the loop's thread.
///
/// Each counts as waiting with those of its buckets that hold it back, and with no other. So whoever is held by its own limit says nothing of a
/// shared one, and leaves the others' parts of it as they are.
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

    /// It is still to wait: perhaps for another one of its buckets.
    func stay(_ task: TransferTask) {
        for bucket in joined[task.id] ?? [] { bucket.leave() }
        enter(task)
    }

    private func enter(_ task: TransferTask) {
        let now = monotonicNanoseconds()
        let closed = task.request.limits.filter { !$0.isOpen(now) }
        // One that is open has others that came before.
        let holding = closed.isEmpty ? task.request.limits.filter(\.hasWaiting) : closed
        for bucket in holding { bucket.join() }
        joined[task.id] = holding
    }
}
