/// When the way to a server is looked at, what was seen, and what the server is told of it. A value: it looks at no socket.
struct PathWatch {
    /// What the sender may have sent of the end while it was still told of more: bytes.
    private static let slack: Int64 = 16 << 10
    /// A window of this size is never too large: bytes.
    private static let largestBound: Int64 = 32 << 20
    /// The window is announced again after so many bytes.
    private static let boundStep: Int64 = 32 << 10
    /// The connection is looked at again after so many bytes at least and at most, or after so many nanoseconds.
    private static let interval: (least: Int64, most: Int64, time: UInt64) = (64 << 10, 4 << 20, 200_000_000)

    /// The body's count of bytes, or the time, at which it is looked at again.
    private var next: (bytes: Int64, time: UInt64) = (0, .max)
    /// A queue was seen on the way, the last time and ever.
    private var (isQueueing, hasQueued) = (false, false)
    /// What the server was last told that it may send: bytes.
    private var bound = Int64.max

    /// Whether to look: when the head is there, and then each time the body has grown by a quarter, or some time has passed.
    mutating func isDue(_ taken: Int64, at now: UInt64) -> Bool {
        guard taken >= next.bytes || now >= next.time else { return false }
        next = (taken + min(max(Self.interval.least, taken / 4), Self.interval.most), now + Self.interval.time)
        return true
    }

    /// Returns whether packets were lost though no queue had ever built up. Where one has, it is the queue that drops packets,
    /// and other connections would meet it, too.
    mutating func note(_ path: TransferPath, isOutOfOrder: Bool) -> Bool {
        isQueueing = path.isQueueing
        hasQueued = hasQueued || isQueueing
        return isOutOfOrder && !hasQueued
    }

    /// The window to announce, so that the server sends hardly more than the `wanted` bytes of a shortened response; nil if
    /// it need not be announced again. On a long way the bytes beyond would be as many as all others that are under way.
    ///
    /// TCP cannot take back what it has announced, and it announces the window with each packet that has come. So the window
    /// leaves out the bytes that wait in the socket. Where a queue has built up, packets are likely to be lost, and what has
    /// come behind a lost one moves the window on at once. Half of it is enough there, because what is under way fills the
    /// link more than once.
    mutating func window(for wanted: Int64, waiting: @autoclosure () -> Int64) -> Int64? {
        guard wanted < Self.largestBound, wanted <= bound - Self.boundStep else { return nil }
        bound = wanted
        return max(0, wanted - waiting()) / (isQueueing ? 2 : 1) + Self.slack
    }
}
