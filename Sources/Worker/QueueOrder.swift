/// Decides which queue a free slot asks first.
///
/// Without weights the order given is strict: a queue is asked only while every earlier one is known to be empty. With
/// weights each queue is drawn first in proportion to its weight, so that none starves.
struct QueueOrder: Sendable {
    /// For how long an empty queue is not asked again. A busy worker then asks only the queue that it is working for.
    static let emptyQueueDelay: Duration = .seconds(1)

    /// One weight per queue, in the order given; nil for strict priority.
    private let weights: [Int]?
    private let count: Int
    private var emptySince: [ContinuousClock.Instant?]

    /// - Parameter weights: An entry per queue, nil where none was given. If any has one, the default is 1.
    init(weights: [Int?]) {
        count = weights.count
        self.weights = weights.contains { $0 != nil } ? weights.map { max(1, $0 ?? 1) } : nil
        emptySince = Array(repeating: nil, count: weights.count)
    }

    /// Records whether queue `index` had no job.
    mutating func record(_ index: Int, wasEmpty: Bool, at now: ContinuousClock.Instant = .now) {
        emptySince[index] = wasEmpty ? now : nil
    }

    /// All queues in the order in which to look for the next job.
    func draw(using generator: inout some RandomNumberGenerator) -> [Int] {
        guard let weights else { return Array(0..<count) }
        var rest = Array(0..<count)
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
