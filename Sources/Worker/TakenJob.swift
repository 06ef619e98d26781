import HaulBus

/// A claim, the queue that it is of, and when it was asked for: its lease counts from then.
struct TakenJob: Sendable {
    let attendant: QueueAttendant
    let claim: Claim
    let sent: ContinuousClock.Instant
}
