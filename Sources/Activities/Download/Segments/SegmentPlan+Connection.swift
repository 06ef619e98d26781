import HaulHTTP

extension SegmentPlan {
    /// A connection from its question to the end of its answer, as far as the plan knows.
    struct Connection {
        /// The next byte that it is to bring.
        var position: Int64
        /// The byte after its last one.
        var end: Int64
        let start: Int64
        let asked: Double
        var opened: Double?
        /// It was asked for all that was missing: others take their parts from it, and where it is shortened its connection
        /// is lost.
        let isEndless: Bool
        /// What was asked for ends here: if it brings all of that, its connection is free for another question.
        let askedEnd: Int64
        var path: TransferPath?
        /// When its window was last seen to grow.
        var grown = -Double.infinity
        /// Whose bytes it is to take over once it is open.
        var owner: Int?
        var firstByte: Double?
        var lastByte: Double
        var sampled: Double
        var average = RunningAverage()

        /// Bytes per second, nil until it can be told.
        var speed: Double? { average.value }
        var isOpen: Bool { opened != nil }

        /// Its response has brought `received` bytes so far. What is older than `memory` seconds counts little for its speed.
        mutating func sample(_ received: Int64, now: Double, memory: Double) {
            guard isOpen else { return }
            let reached = start + received
            if reached > position {
                firstByte = firstByte ?? lastByte
                lastByte = now
            }
            let elapsed = now - sampled
            guard let firstByte, elapsed >= SegmentPlan.shortestSample else { return }
            average.add(Double(reached - position) / elapsed, over: elapsed, age: now - firstByte, memory: memory)
            sampled = now
            position = max(position, reached)
        }
    }
}
