/// When to inspect the path to a server, what was seen, and which TCP window to announce. A value: it uses no socket.
struct PathWatch {
    /// Added to each window: bytes near the end that the server may already have sent under a larger window.
    private static let slack: Int64 = 16 << 10
    /// Windows from this size on are not limited: bytes.
    private static let maxBound: Int64 = 32 << 20
    /// The window is announced again after this many bytes.
    private static let boundStep: Int64 = 32 << 10
    /// The path is inspected again after this many bytes (at least and at most), or after this many nanoseconds.
    private static let interval: (min: Int64, max: Int64, time: UInt64) = (64 << 10, 4 << 20, 200_000_000)

    /// The byte count of the body, or the time, at which the path is inspected next.
    private var next: (bytes: Int64, time: UInt64) = (0, .max)
    /// Whether the path had a queue: in the last sample, and ever.
    private var (isQueueing, hasQueued) = (false, false)
    /// The number of bytes that the server may send, as last announced.
    private var bound = Int64.max

    /// Whether to inspect the path now: when the head has arrived, and then each time the body has grown by a quarter
    /// or some time has passed.
    mutating func isDue(_ accepted: Int64, at now: UInt64) -> Bool {
        guard accepted >= next.bytes || now >= next.time else { return false }
        next = (accepted + min(max(Self.interval.min, accepted / 4), Self.interval.max), now + Self.interval.time)
        return true
    }

    /// Records a sample. Returns whether packets were lost although no queue had ever built up. If one has, the queue
    /// drops packets, and more connections would lose packets, too.
    mutating func record(_ path: TransferPath, isOutOfOrder: Bool) -> Bool {
        isQueueing = path.isQueueing
        hasQueued = hasQueued || isQueueing
        return isOutOfOrder && !hasQueued
    }

    /// The window to announce so that the server sends hardly more than the `wanted` bytes of a shortened response; nil
    /// if no new announcement is needed. On a long path the excess would be as large as everything in flight.
    ///
    /// TCP cannot reduce a window that it has announced, and it announces the window with each packet that arrives. So
    /// bytes that wait in the socket are subtracted. If a queue has built up, packets are likely to be lost, and the
    /// packets behind a lost one advance the window at once. Half the window is enough then, because the bytes in
    /// flight fill the link more than once.
    mutating func window(for wanted: Int64, waiting: @autoclosure () -> Int64) -> Int64? {
        guard wanted < Self.maxBound, wanted <= bound - Self.boundStep else { return nil }
        bound = wanted
        return max(0, wanted - waiting()) / (isQueueing ? 2 : 1) + Self.slack
    }
}

/// What TCP knows about the path to a server.
package struct TransferPath: Sendable, Equatable {
    /// The round-trip time without any queue: seconds.
    package let roundTrip: Double
    /// The current round-trip time: seconds.
    package let delay: Double
    /// What the server may still send before it receives another packet of ours: bytes.
    package let window: Int64
    /// Packets were lost although no queue had built up: more bytes in flight would not have been too many.
    package let isLossy: Bool

    package init(roundTrip: Double, delay: Double? = nil, window: Int64 = 0, isLossy: Bool) {
        (self.roundTrip, self.delay, self.window, self.isLossy) = (roundTrip, delay ?? roundTrip, window, isLossy)
    }

    /// A queue has built up: the bytes in flight fill the link.
    package var isQueueing: Bool { delay > 1.5 * roundTrip }
}
