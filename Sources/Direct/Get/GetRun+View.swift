import HaulActivities

extension GetRun {
    /// What a bar shows.
    struct View: Sendable {
        enum Phase: Sendable {
            case waiting(String)
            case running
            case retrying(at: ContinuousClock.Instant, why: String)
        }

        var phase = Phase.waiting("queued")
        var name: String
        var progress = ActivityProgress()
        /// The download waits because its host has as many connections as allowed.
        var isHeld = false
        /// The text to show once all bytes have been transferred.
        var ending = "checking and syncing"
    }
}
