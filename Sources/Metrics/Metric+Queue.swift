// The metrics of a queue, as an exporter reports them.
extension Metric {
    package static let queueUp = gauge(
        "haul_queue_up", by: "queue",
        help: "1 if Redis answered this scrape. If it is 0, the other metrics of the queue are absent.")
    package static let queueJobs = gauge(
        "haul_queue_jobs", by: "queue", "state", help: "Jobs by state; ended ones as long as they are kept.")
    package static let queueOldestWaiting = gauge(
        "haul_queue_oldest_waiting_seconds", by: "queue",
        help: "How long the oldest of the next jobs has waited: since its at, or else since the exporter first "
            + "saw it. 0 if none waits; absent if the exporter may not read the waiting elements.")
    package static let queueRejected = gauge(
        "haul_queue_rejected", by: "queue", help: "Elements in the list of rejected ones, at most 1000.")
    package static let queueWorkers = gauge(
        "haul_queue_workers", by: "queue", help: "Workers that were seen in the last 10 seconds.")
    package static let queueSlots = gauge(
        "haul_queue_slots", by: "queue",
        help: "Slots of the workers that were seen in the last 10 seconds; a worker with unlimited slots counts "
            + "as many as it has taken.")
    package static let queueSlotsTaken = gauge(
        "haul_queue_slots_taken", by: "queue", help: "Of these, slots that have a job now.")
    package static let queuePaused = gauge(
        "haul_queue_paused", by: "queue", help: "1 if no jobs are started, in one partition or in all.")
    package static let queueMaxRunning = gauge(
        "haul_queue_max_running", by: "queue",
        help: "The maximum number of jobs that may run at once; absent without a limit.")
    package static let queueLastTick = gauge(
        "haul_queue_last_tick_timestamp_seconds", by: "queue",
        help: "Unix time of the last heartbeat of any worker; absent if there was none.")

    package static let queueGroups = gauge(
        "haul_queue_groups", by: "queue", "waits_for",
        help: "Groups with waiting jobs: those that wait for their turn, and those that have reached a limit.")

    package static let queueEvents = counter(
        "haul_queue_events_total", by: "queue", "event",
        help: "Events that the whole fleet has published, except progress.")
    package static let queueFailures = counter(
        "haul_queue_failures_total", by: "queue", "code",
        help: "Jobs of the whole fleet that failed for good, by error code. The 100 most frequent codes are "
            + "counted separately; further ones are \"other\".")
    package static let queueClaims = counter(
        "haul_queue_claims_total", by: "queue", help: "Jobs that workers have claimed.")
    package static let queueLost = counter(
        "haul_queue_lost_total", by: "queue",
        help: "Jobs that were returned to the queue because their worker was lost.")
    package static let queueReceivedBytes = counter(
        "haul_queue_received_bytes_total", by: "queue", help: "Bytes of bodies that have arrived at all workers.")
    package static let queueSteps = counter(
        "haul_queue_steps_total", by: "queue", help: "Jobs that the ends of others have pushed (then and else).")
    package static let queueWebhooks = counter(
        "haul_queue_webhooks_total", by: "queue",
        help: "Webhooks that ends of jobs and batches have pushed. Each of them is a job, and ends as one.")
    package static let queueScheduleRuns = counter(
        "haul_queue_schedule_runs_total", by: "queue", "outcome",
        help: "Runs of schedules: pushed, or skipped because the last run had not ended. And how often some were "
            + "missed because no worker served the queue, each time counted once.")
    package static let queueScheduleLateness = counter(
        "haul_queue_schedule_lateness_seconds_total", by: "queue",
        help: "How late the pushed runs of schedules were, in all. Divide it by the pushed runs.")

    package static let queueSchedules = gauge(
        "haul_queue_schedules", by: "queue", help: "Schedules, paused ones included.")
    package static let queueScheduleOverdue = gauge(
        "haul_queue_schedule_overdue_seconds", by: "queue",
        help: "How long the run of a schedule has been due that no worker has pushed yet; 0 if none is due.")

    package static let queueKeptEvents = gauge(
        "haul_queue_kept_events", by: "queue", help: "Events in the stream that the setting event_stream asks for.")
    package static let queueOldestKeptEvent = gauge(
        "haul_queue_oldest_kept_event_timestamp_seconds", by: "queue",
        help: "Unix time from which on all events are kept; absent if none is.")
    package static let queueConsumerLag = gauge(
        "haul_queue_consumer_lag", by: "queue", "group",
        help: "Events of the stream that no consumer of the group has taken yet; the 20 groups that are farthest "
            + "behind. Absent if Redis does not know it, as after a restart until the group has read the whole stream.")
    package static let queueConsumerLagRatio = gauge(
        "haul_queue_consumer_lag_ratio", by: "queue", "group",
        help: "The lag as a part of what the stream may keep, of the partition where it is largest. Beyond 1 the group "
            + "misses events.")
    package static let queueConsumerPending = gauge(
        "haul_queue_consumer_pending", by: "queue", "group",
        help: "Events that consumers of the group have taken and not acknowledged.")

    /// In the order of docs/operate/metrics.md.
    package static let queueMetrics = [
        queueUp, queueJobs, queueOldestWaiting, queueRejected, queueWorkers, queueSlots, queueSlotsTaken, queuePaused,
        queueMaxRunning, queueLastTick, queueGroups, queueEvents, queueFailures, queueClaims, queueLost,
        queueReceivedBytes, queueSteps, queueWebhooks, queueScheduleRuns, queueScheduleLateness, queueSchedules,
        queueScheduleOverdue, queueKeptEvents, queueOldestKeptEvent, queueConsumerLag, queueConsumerLagRatio,
        queueConsumerPending,
    ]
}
