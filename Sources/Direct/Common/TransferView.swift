import HaulActivities

/// What the progress bar of one transfer shows.
struct TransferView: Sendable {
    enum Phase: Sendable {
        case waiting(String)
        case running
        case retrying(at: ContinuousClock.Instant, why: String)
    }

    var phase = Phase.waiting("queued")
    var name: String
    var progress = ActivityProgress()
    /// The transfer waits because its host has as many connections as allowed.
    var isHeld = false
    /// The text to show once all bytes have been transferred.
    var ending = "checking and syncing"
}
