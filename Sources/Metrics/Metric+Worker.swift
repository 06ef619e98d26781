// The metrics of a worker.
extension Metric {
    package static let buildInfo = gauge("haul_build_info", by: "version", help: "1, with the version.")
    package static let workerInfo = gauge(
        "haul_worker_info", by: "worker", "store", help: "1, with the worker's name and the id of its store.")
    package static let slots = gauge("haul_slots", help: "Jobs that may run at once; +Inf with --slots unlimited.")
    package static let slotsTaken = gauge("haul_slots_taken", help: "Jobs that have a slot now.")
    package static let accepting = gauge(
        "haul_accepting",
        help: "1 while the worker claims jobs; 0 while it is ending, is quiet in all of its queues, or its store "
            + "cannot be written.")
    package static let quiet = gauge(
        "haul_quiet", help: "1 while an operator has made the worker quiet in all of its queues.")

    package static let claims = counter("haul_claims_total", by: "queue", help: "Jobs that the worker has claimed.")
    package static let takeovers = counter(
        "haul_takeovers_total", by: "queue",
        help: "Claimed jobs that were lost with another worker, or with an earlier process of this one.")
    package static let resumes = counter(
        "haul_resumes_total", by: "queue", help: "Runs that continued from bytes that an earlier run had received.")
    package static let restarts = counter(
        "haul_restarts_total", by: "queue", help: "Times that a run dropped its bytes and restarted its file.")
    package static let runsEnded = counter(
        "haul_runs_ended_total", by: "queue", "result", "code",
        help: "Runs by how they ended, and by error code, which is empty without an error. At most 100 codes are "
            + "counted separately; further ones are \"other\".")
    package static let runDuration = histogram(
        "haul_run_duration_seconds", by: "queue", buckets: jobDurations,
        help: "From the claim of a run to the end of its settling.")
    package static let fenced = counter(
        "haul_fenced_total", by: "queue", help: "Runs that the worker lost because their leases had ended.")

    package static let receivedBytes = counter(
        "haul_received_bytes_total", by: "queue", help: "Bytes of bodies that have arrived for downloads and requests.")
    package static let sentBytes = counter(
        "haul_sent_bytes_total", by: "queue", help: "Bytes of files that uploads have sent, repeated ones included.")
    package static let refetchedBytes = counter(
        "haul_refetched_bytes_total", by: "queue",
        help: "Received bytes that made no file longer: dropped at a restart, or fetched twice. Counted at the "
            + "end of each run.")
    package static let transfers = gauge("haul_transfers", help: "HTTP exchanges under way.")
    package static let connections = gauge("haul_connections", help: "Connections that downloads have to hosts now.")
    package static let connectionsWaiting = gauge(
        "haul_connections_waiting",
        help: "Downloads that wait for a connection, because their host has as many as it may.")
    package static let hostBackoffs = counter(
        "haul_host_backoffs_total",
        help: "Times that a host refused (429, 503, a refused connection), so that it gets fewer connections "
            + "from then on.")
    package static let hostsBackedOff = gauge(
        "haul_hosts_backed_off", help: "Hosts that get fewer connections than --connections-per-host now.")
    package static let hostConnectionLimit = gauge(
        "haul_host_connection_limit", by: "host",
        help: "The current limit of connections to a host that refused some; the 20 hosts with the lowest limit.")

    package static let claimDuration = histogram(
        "haul_claim_duration_seconds", by: "queue",
        help: "The round trip of a separate claim. Workers of several queues make them; otherwise a claim comes "
            + "with a wait or a settle.")
    package static let settleDuration = histogram(
        "haul_settle_duration_seconds", by: "queue",
        help: "From the end of a run until Redis has its result, failures included.")
    package static let tickDuration = histogram(
        "haul_tick_duration_seconds", by: "queue", help: "All calls of a heartbeat, which maintains a queue.")
    package static let checkpointDuration = histogram(
        "haul_checkpoint_duration_seconds", help: "The time to write the bytes of a checkpoint to the disk.")
    package static let commitDuration = histogram(
        "haul_commit_duration_seconds",
        help: "From the last byte of a file until it is durable under its name, without the gate.")
    package static let gateDuration = histogram(
        "haul_gate_duration_seconds", by: "queue", "result", buckets: jobDurations,
        help: "The command of --gate, by its result: \"accepted\", \"refused\" or \"failed\". The time that a file "
            + "waits for its turn does not count.")
    package static let webhooks = counter(
        "haul_webhooks_total", by: "queue", "result",
        help:
            "Runs of webhooks, by the same results as haul_runs_ended_total. A webhook that is refused is tried again "
            + "for a day.")
    package static let loopDelay = histogram(
        "haul_loop_delay_seconds", by: "loop",
        help: "How long work waits before a loop starts it: \"transfers\", \"redis\", and Swift's "
            + "\"cooperative\" threads. Measured once a second.")

    package static let redisRoundTrips = counter(
        "haul_redis_round_trips_total",
        help: "Pipelines of commands that were sent and answered, waits for jobs included.")
    package static let redisConnects = counter(
        "haul_redis_connects_total",
        help: "Connections to Redis that were opened; after the first few each one is a reconnect.")
    package static let redisFailures = counter(
        "haul_redis_failures_total", by: "queue", help: "Times that Redis could not be reached, or refused a command.")
    package static let lastTick = gauge(
        "haul_last_tick_timestamp_seconds", by: "queue", help: "Unix time of the last heartbeat that Redis answered.")
    package static let storeFree = gauge(
        "haul_store_free_bytes", help: "Free space of the store, less what --keep-free reserves.")
    package static let storeSize = gauge("haul_store_size_bytes", help: "Size of the store's file system.")
    package static let poolBytes = gauge(
        "haul_pool_bytes", by: "pool",
        help: "Memory of \"blocks\" on their way to the disk, and of libcurl's \"receive\" buffers.")

    package static let processCPU = counter("process_cpu_seconds_total", help: "Processor time, user and system.")
    package static let processMemory = gauge("process_resident_memory_bytes", help: "Resident memory.")
    package static let processDescriptors = gauge("process_open_fds", help: "Open file descriptors.")
    package static let processDescriptorLimit = gauge(
        "process_max_fds", help: "The maximum number of file descriptors that may be open.")
    package static let processStart = gauge(
        "process_start_time_seconds", help: "Unix time at which the process started.")

    /// In the order of docs/operate/metrics.md.
    package static let workerMetrics = [
        buildInfo, workerInfo, slots, slotsTaken, accepting, quiet, claims, takeovers, resumes, restarts, runsEnded,
        runDuration, fenced, receivedBytes, sentBytes, refetchedBytes, transfers, connections, connectionsWaiting,
        hostBackoffs,
        hostsBackedOff, hostConnectionLimit, claimDuration, settleDuration, tickDuration, checkpointDuration,
        commitDuration, gateDuration, webhooks, loopDelay, redisRoundTrips, redisConnects, redisFailures, lastTick,
        storeFree,
        storeSize,
        poolBytes, processCPU, processMemory, processDescriptors, processDescriptorLimit, processStart,
    ]
}
