// The metrics of a queue, as an exporter reports them.
extension Metric {
    package static let queueUp = gauge("haul_queue_up", "1 if Redis answered this scrape.")
    package static let queueJobs = gauge("haul_queue_jobs", "Jobs by state; ended ones as long as they are kept.")
    package static let queueOldestWaiting = gauge(
        "haul_queue_oldest_waiting_seconds", "How long the oldest waiting job has waited; 0 if none waits.")
    package static let queueRejected = gauge("haul_queue_rejected", "Elements in the list of rejected ones.")
    package static let queueWorkers = gauge("haul_queue_workers", "Workers that were seen in the last 10 seconds.")
    package static let queueSlots = gauge(
        "haul_queue_slots", "Slots of the workers that were seen in the last 10 seconds.")
    package static let queueSlotsTaken = gauge("haul_queue_slots_taken", "Of these, slots that have a job now.")
    package static let queuePaused = gauge("haul_queue_paused", "1 if no jobs are started.")
    package static let queueMaxRunning = gauge("haul_queue_max_running", "The most jobs that may run at once.")
    package static let queueLastTick = gauge(
        "haul_queue_last_tick_timestamp_seconds", "Unix time of the last tick of any worker.")

    package static let queueEvents = counter(
        "haul_queue_events_total", "Events that the whole fleet has published, except progress.")
    package static let queueFailures = counter(
        "haul_queue_failures_total", "Jobs of the whole fleet that failed for good, by error code.")
    package static let queueClaims = counter("haul_queue_claims_total", "Jobs that workers have claimed.")
    package static let queueLost = counter(
        "haul_queue_lost_total", "Jobs that were returned to the queue because their worker was lost.")
    package static let queueReceivedBytes = counter(
        "haul_queue_received_bytes_total", "Bytes of bodies that have arrived at all workers.")

    /// In the order of docs/operate/metrics.md.
    package static let ofQueue = [
        queueUp, queueJobs, queueOldestWaiting, queueRejected, queueWorkers, queueSlots, queueSlotsTaken, queuePaused,
        queueMaxRunning, queueLastTick, queueEvents, queueFailures, queueClaims, queueLost, queueReceivedBytes,
    ]
}
