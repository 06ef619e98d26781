/// What TCP tells of the way to a server.
package struct TransferPath: Sendable, Equatable {
    /// Seconds.
    package let roundTrip: Double
    /// Packets were lost though no queue had built up: more bytes under way would not have been too many.
    package let isLossy: Bool

    package init(roundTrip: Double, isLossy: Bool) { (self.roundTrip, self.isLossy) = (roundTrip, isLossy) }
}
