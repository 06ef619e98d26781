import Synchronization

/// The queues of this worker, and which of them a slot asks for its next job.
final class QueueSelector: Sendable {
    let attendants: [QueueServer]
    private let order: Mutex<QueueOrder>

    /// - Parameter weights: An entry for each attendant, nil where none was given.
    init(_ attendants: [QueueServer], weights: [Int?]) {
        self.attendants = attendants
        order = Mutex(QueueOrder(weights: weights))
    }

    /// All queues in the order in which a slot looks for its next job.
    func draw() -> [Int] {
        var generator = SystemRandomNumberGenerator()
        return order.withLock { $0.draw(using: &generator) }
    }

    /// Whether a slot that drew this order asks `attendant` before all others.
    func asksFirst(_ attendant: QueueServer, in drawn: [Int]) -> Bool {
        attendants.count == 1 || order.withLock { $0.candidates(in: drawn) }.first == attendant.index
    }

    /// Notes whether a queue had no job to give.
    func record(_ attendant: QueueServer, wasEmpty: Bool) {
        order.withLock { $0.record(attendant.index, wasEmpty: wasEmpty) }
    }

    /// Claims the next job of any queue, in the drawn order. Queues that were empty a moment ago are not asked.
    func claimNext(_ drawn: [Int]) async -> TakenJob? {
        for index in order.withLock({ $0.candidates(in: drawn) }) {
            let (attendant, sent) = (attendants[index], ContinuousClock.now)
            let (claim, isEmpty) = await attendant.claimNow()
            record(attendant, wasEmpty: isEmpty)
            if let claim { return TakenJob(attendant: attendant, claim: claim, sent: sent) }
        }
        return nil
    }
}
