import HaulHTTP

extension SegmentPlan {
    /// What the plan knows about a connection, from its request to the end of the response.
    struct Connection {
        /// The offset of the next byte that it will receive.
        var position: Int64
        /// The offset after its last byte.
        var end: Int64
        let start: Int64
        let requestedAt: Double
        var openedAt: Double?
        /// It was opened for all missing bytes, and other connections take their parts from it. When its response is
        /// shortened, its TCP connection is lost.
        let requestsAllBytes: Bool
        /// The end of the requested range. If the response reaches it, the TCP connection is free for another request.
        let requestedEnd: Int64
        var path: TransferPath?
        /// When its TCP window was last seen to grow.
        var windowGrewAt = -Double.infinity
        /// The connection whose bytes it takes over once it is open.
        var owner: Int?
        var firstByte: Double?
        var lastByte: Double
        var sampledAt: Double
        var average = RunningAverage()

        /// Bytes per second; nil until it is known.
        var speed: Double? { average.value }
        var isOpen: Bool { openedAt != nil }

        /// Its response has delivered `received` bytes. Measurements of speed older than `averagingTime` seconds count
        /// little.
        mutating func sample(_ received: Int64, now: Double, averagingTime: Double) {
            guard isOpen else { return }
            let reached = start + received
            if reached > position {
                firstByte = firstByte ?? lastByte
                lastByte = now
            }
            let elapsed = now - sampledAt
            guard let firstByte, elapsed >= SegmentPlan.minSampleTime else { return }
            average.add(
                Double(reached - position) / elapsed, over: elapsed, age: now - firstByte, averagingTime: averagingTime)
            sampledAt = now
            position = max(position, reached)
        }
    }
}
