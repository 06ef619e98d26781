import HaulActivities

extension GetRun {
    /// What a bar shows.
    struct View: Sendable {
        enum Phase: Sendable {
            case waiting(String)
            case running
            case retrying(at: ContinuousClock.Instant, why: String)
        }

        var phase = Phase.waiting("in line")
        var name: String
        var progress = ActivityProgress()
        /// It waits for its host's turn.
        var isHeld = false
        /// What is done once all bytes have moved.
        var ending = "checking and syncing"
    }
}
