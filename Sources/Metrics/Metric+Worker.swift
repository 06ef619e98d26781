// The metrics of a worker.
extension Metric {
    package static let buildInfo = gauge("haul_build_info", "1, with the version.")
    package static let workerInfo = gauge("haul_worker_info", "1, with the worker's name and the id of its store.")
    package static let slots = gauge("haul_slots", "Jobs that may run at once.")
    package static let slotsTaken = gauge("haul_slots_taken", "Jobs that have a slot now.")
    package static let accepting = gauge("haul_accepting", "1 while the worker claims jobs.")

    package static let claims = counter("haul_claims_total", "Jobs that the worker has claimed.")
    package static let takeovers = counter(
        "haul_takeovers_total", "Claimed jobs that were lost with another worker or an earlier process.")
    package static let resumes = counter(
        "haul_resumes_total", "Runs that continued from bytes that an earlier run had received.")
    package static let restarts = counter("haul_restarts_total", "Times that a run dropped its bytes and restarted.")
    package static let runsEnded = counter("haul_runs_ended_total", "Runs by how they ended, and by error code.")
    package static let runDuration = histogram(
        "haul_run_duration_seconds", "From the claim of a run to the end of its settling.", lengths)
    package static let fenced = counter(
        "haul_fenced_total", "Runs that the worker lost because their leases had ended.")

    package static let receivedBytes = counter(
        "haul_received_bytes_total", "Bytes of bodies that have arrived for downloads and requests.")
    package static let sentBytes = counter("haul_sent_bytes_total", "Bytes of files that uploads have sent.")
    package static let refetchedBytes = counter(
        "haul_refetched_bytes_total", "Bytes that made no file longer: dropped at a restart, or fetched twice.")
    package static let transfers = gauge("haul_transfers", "HTTP exchanges under way.")
    package static let connections = gauge("haul_connections", "Connections that downloads have to hosts now.")
    package static let connectionsWaiting = gauge(
        "haul_connections_waiting", "Downloads that wait for a connection, because their host has as many as it may.")
    package static let hostBackoffs = counter(
        "haul_host_backoffs_total", "Times that a host refused a connection, so that it gets fewer from then on.")
    package static let hostsBackedOff = gauge(
        "haul_hosts_backed_off", "Hosts that get fewer connections than configured now.")
    package static let hostConnectionLimit = gauge(
        "haul_host_connection_limit",
        "The current limit of connections to a host that refused some; the 20 hosts with the lowest limit.")

    package static let claimDuration = histogram(
        "haul_claim_duration_seconds", "The round trip of a claim that does not wait for a job.")
    package static let settleDuration = histogram(
        "haul_settle_duration_seconds", "From the end of a run until Redis has its result.")
    package static let tickDuration = histogram(
        "haul_tick_duration_seconds", "All calls of a tick, which maintains a queue.")
    package static let checkpointDuration = histogram(
        "haul_checkpoint_duration_seconds", "The time to write the bytes of a checkpoint to the disk.")
    package static let commitDuration = histogram(
        "haul_commit_duration_seconds", "From the last byte of a file until it is durable under its name.")
    package static let loopDelay = histogram(
        "haul_loop_delay_seconds", "How long work waits before an event loop starts it.")

    package static let redisRoundTrips = counter(
        "haul_redis_round_trips_total", "Pipelines of commands that were sent and answered.")
    package static let redisConnects = counter("haul_redis_connects_total", "Connections to Redis that were opened.")
    package static let redisFailures = counter(
        "haul_redis_failures_total", "Times that Redis could not be reached, or refused a command.")
    package static let lastTick = gauge(
        "haul_last_tick_timestamp_seconds", "Unix time of the last tick that Redis answered.")
    package static let storeFree = gauge(
        "haul_store_free_bytes", "Free space of the store, less what --keep-free reserves.")
    package static let storeSize = gauge("haul_store_size_bytes", "Size of the store's file system.")
    package static let poolBytes = gauge(
        "haul_pool_bytes", "Memory of blocks on their way to the disk, and of libcurl's receive buffers.")

    package static let processCPU = counter("process_cpu_seconds_total", "Processor time, user and system.")
    package static let processMemory = gauge("process_resident_memory_bytes", "Resident memory.")
    package static let processDescriptors = gauge("process_open_fds", "Open file descriptors.")
    package static let processDescriptorLimit = gauge("process_max_fds", "The most file descriptors that may be open.")
    package static let processStart = gauge("process_start_time_seconds", "Unix time at which the process started.")

    /// In the order of docs/operate/metrics.md.
    package static let ofWorker = [
        buildInfo, workerInfo, slots, slotsTaken, accepting, claims, takeovers, resumes, restarts, runsEnded,
        runDuration, fenced, receivedBytes, sentBytes, refetchedBytes, transfers, connections, connectionsWaiting,
        hostBackoffs,
        hostsBackedOff, hostConnectionLimit, claimDuration, settleDuration, tickDuration, checkpointDuration,
        commitDuration, loopDelay, redisRoundTrips, redisConnects, redisFailures, lastTick, storeFree, storeSize,
        poolBytes, processCPU, processMemory, processDescriptors, processDescriptorLimit, processStart,
    ]
}
