/// Decides which queue a free slot asks first.
///
/// Without weights the order given is strict: a queue is asked only while every earlier one is known to be empty. With
/// weights each queue is drawn first in proportion to its weight, so that none starves. The partitions of a queue have
/// equal chances.
struct QueueOrder: Sendable {
    /// For how long an empty queue is not asked again. A busy worker then asks only the queue that it is working for.
    static let emptyQueueDelay: Duration = .seconds(1)

    /// A slot stays with a partition for so many jobs on average: the next job then comes with the settle.
    static let meanStay = 16

    /// One weight per queue, in the order given; nil for strict priority.
    private let weights: [Int]?
    /// The indices of each queue's partitions; one index for an ordinary queue.
    private let parts: [[Int]]
    private var emptySince: [ContinuousClock.Instant?]

    /// - Parameter weights: An entry per queue, nil where none was given. If any has one, the default is 1.
    /// - Parameter partitions: How many partitions each queue has; nil if none has any.
    init(weights: [Int?], partitions: [Int]? = nil) {
        self.weights = weights.contains { $0 != nil } ? weights.map { max(1, $0 ?? 1) } : nil
        var count = 0
        parts = weights.indices.map { queue in
            let first = count
            count += partitions?[queue] ?? 1
            return Array(first..<count)
        }
        emptySince = Array(repeating: nil, count: count)
    }

    /// Records whether queue `index` had no job.
    mutating func record(_ index: Int, wasEmpty: Bool, at now: ContinuousClock.Instant = .now) {
        emptySince[index] = wasEmpty ? now : nil
    }

    /// All queues in the order in which to look for the next job.
    ///
    /// - Parameter current: The index that the slot has worked for.
    func draw(after current: Int? = nil, using generator: inout some RandomNumberGenerator) -> [Int] {
        let stays = Int.random(in: 0..<Self.meanStay, using: &generator) > 0
        var order: [Int] = []
        for queue in drawQueues(using: &generator) {
            guard parts[queue].count > 1 else {
                order += parts[queue]
                continue
            }
            var drawn = parts[queue].shuffled(using: &generator)
            if stays, let current, let place = drawn.firstIndex(of: current) { drawn.swapAt(0, place) }
            order += drawn
        }
        return order
    }

    private func drawQueues(using generator: inout some RandomNumberGenerator) -> [Int] {
        guard let weights else { return Array(parts.indices) }
        var rest = Array(parts.indices)
        var order: [Int] = []
        while !rest.isEmpty {
            var ticket = Int.random(in: 0..<rest.reduce(0) { $0 + weights[$1] }, using: &generator)
            let drawn = rest.firstIndex { index in
                ticket -= weights[index]
                return ticket < 0
            }!
            order.append(rest.remove(at: drawn))
        }
        return order
    }

    /// The queues of `order` that are worth asking, in order: those that were not empty at the last claim.
    func candidates(in order: [Int], at now: ContinuousClock.Instant = .now) -> [Int] {
        order.filter { index in
            guard let since = emptySince[index] else { return true }
            return now - since >= Self.emptyQueueDelay
        }
    }
}
