// The constants of the rules, in bytes and seconds.
extension SegmentPlan {
    /// Fewer bytes are not worth a request.
    static let minPartBytes: Int64 = 512 << 10
    /// The same for a wide-area path, where connections are slow.
    static let minWideAreaPartBytes: Int64 = 64 << 10
    /// A part that its owner would receive within this time is not worth a request either.
    static let minPartTime = 0.25
    /// Taking bytes over pays only if it saves several times the response time. The limits of this minimum, and its
    /// value while the response time is unknown.
    static let minSavedSeconds = (unknown: 2.0, min: 0.2, max: 2.0)
    /// From this round trip on slow start decides how long a download takes, not the speed of running connections. So
    /// more connections are opened before any speed is known.
    static let wideAreaRoundTrip = 0.005
    /// From this round trip on slow start takes so long that nothing waits for the speed of the first few connections.
    static let longHaulRoundTrip = 0.05
    /// How many further connections may wait for a response at once, or as many as are open. So a host that accepts few
    /// connections refuses no more than these, and one that accepts more refuses no more than it accepts.
    static let maxUnanswered = 3
    /// The same on a long-haul path, where waiting for a response costs more than a refusal.
    static let maxUnansweredOnLongHaul = 7
    /// On a wide-area path this many connections join at once; more only for each `bytesPerConnection` bytes that are
    /// missing.
    static let defaultWideAreaConnections = 4
    static let bytesPerConnection: Int64 = 4 << 20
    /// Round trips until slow start has ended, and until it shows whether a queue builds up.
    static let slowStartRoundTrips = 8.0
    static let queueingRoundTrips = 5.0
    /// How many connections are opened within a round trip on a long-haul path, one after the other. If several begin
    /// to send at the same time, each takes the others for a queue and ends its slow start too soon (HyStart).
    static let openingsPerRoundTrip = 8.0
    /// The same as `bytesPerConnection` on a path that loses packets, where each connection stays slow.
    static let bytesPerLossyConnection: Int64 = 1 << 20
    /// An idle connection takes over all bytes of one that receives nothing for this time, and for these round trips,
    /// because after a loss TCP may wait for several of them.
    static let minSilence = 1.0
    static let silentRoundTrips = 10.0
    /// A connection that receives nothing for this time is dropped while others receive something.
    static let maxSilence = 10.0
    /// More connections join as long as they make the download faster by this factor within `trialTime`.
    static let minSpeedup = 1.15
    static let trialTime = 2.0
    /// On a wide-area path speeds are averages over at least this time.
    static let averagingTime = 0.25
    /// A speed that is measured over a shorter time is ignored.
    static let minSampleTime = 0.02
    /// A part is worth taking if it has this many times the bytes that would arrive twice.
    static let minPartPerDuplicateByte: Int64 = 8
    /// Until this many round trips have passed, the speed of a response says little about its later speed.
    static let stableSpeedRoundTrips = 6.0
}
