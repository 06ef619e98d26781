import HaulExecutors

/// The transfers that wait for a rate limit, in order, on the loop's thread.
final class LimitedTasks {
    private(set) var queue: [UInt64] = []

    var isEmpty: Bool { queue.isEmpty }

    func join(_ task: TransferTask) {
        queue.append(task.id)
        for bucket in task.request.limits { bucket.join() }
    }

    func leave(_ task: TransferTask) {
        queue.removeAll { $0 == task.id }
        for bucket in task.request.limits { bucket.leave() }
    }
}
