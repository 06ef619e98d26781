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
