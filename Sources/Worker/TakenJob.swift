import HaulBus

/// A claim, its queue, and the moment before it was requested, from which its lease counts.
struct TakenJob: Sendable {
    let attendant: QueueServer
    let claim: Claim
    let sent: ContinuousClock.Instant
}
