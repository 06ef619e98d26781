import HaulBus

/// A claim, its queue, and the time before it was requested, from which its lease counts.
struct TakenJob: Sendable {
    let queueServer: QueueServer
    let claim: Claim
    let sent: ContinuousClock.Instant
}
