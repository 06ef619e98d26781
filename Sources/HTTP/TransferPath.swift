/// What TCP tells of the way to a server.
package struct TransferPath: Sendable, Equatable {
    /// Seconds, without any queue.
    package let roundTrip: Double
    /// What a round trip takes at the moment: seconds.
    package let delay: Double
    /// What the server may still send before it hears from us again: bytes.
    package let window: Int64
    /// Packets were lost though no queue had built up: more bytes under way would not have been too many.
    package let isLossy: Bool

    package init(roundTrip: Double, delay: Double? = nil, window: Int64 = 0, isLossy: Bool) {
        (self.roundTrip, self.delay, self.window, self.isLossy) = (roundTrip, delay ?? roundTrip, window, isLossy)
    }

    /// A queue has built up: what is under way fills the link.
    package var isQueueing: Bool { delay > 1.5 * roundTrip }
}
