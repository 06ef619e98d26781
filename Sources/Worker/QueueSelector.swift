import HaulBus
import Synchronization

/// The queues of this worker, and which of them a slot asks for its next job.
final class QueueSelector: Sendable {
    let queueServers: [QueueServer]
    private let order: Mutex<QueueOrder>

    /// - Parameter queues: As the configuration names them. Each partition has a server of its own.
    init(_ queueServers: [QueueServer], of queues: [ServedQueue]) {
        self.queueServers = queueServers
        order = Mutex(QueueOrder(weights: queues.map(\.weight), partitions: queues.map { $0.parts.count }))
    }

    /// All queues in the order in which a slot that has worked for `current` asks for its next job.
    func draw(after current: QueueServer) -> [Int] {
        var generator = SystemRandomNumberGenerator()
        return order.withLock { $0.draw(after: current.index, using: &generator) }
    }

    /// Whether a slot that drew this order asks `queueServer` before all others.
    func asksFirst(_ queueServer: QueueServer, in drawn: [Int]) -> Bool {
        queueServers.count == 1 || order.withLock { $0.candidates(in: drawn) }.first == queueServer.index
    }

    /// Records whether a queue had no job.
    func record(_ queueServer: QueueServer, wasEmpty: Bool) {
        order.withLock { $0.record(queueServer.index, wasEmpty: wasEmpty) }
    }

    /// Claims the next job of any queue, in the drawn order. Queues that were empty at the last claim are not asked.
    func claimNext(_ drawn: [Int]) async -> TakenJob? {
        for index in order.withLock({ $0.candidates(in: drawn) }) {
            let (queueServer, sent) = (queueServers[index], ContinuousClock.now)
            let (claim, isEmpty) = await queueServer.claims.claimNow()
            record(queueServer, wasEmpty: isEmpty)
            if let claim { return TakenJob(queueServer: queueServer, claim: claim, sent: sent) }
        }
        return nil
    }
}

/// A claim, its queue, and the time before it was requested, from which its lease counts.
struct TakenJob: Sendable {
    let queueServer: QueueServer
    let claim: Claim
    let sent: ContinuousClock.Instant
}
