import HaulBus
import HaulRedis

/// The numbers of jobs and workers of a queue.
public struct QueueStatistics: Sendable, Equatable {
    /// The number of jobs in each state. For ``JobState/queued`` the number of waiting elements.
    public let counts: [JobState: Int]
    /// The number of rejected elements that Redis keeps, at most the newest 1000.
    public let rejected: Int
    /// Whether the queue, or one of its partitions, is paused: no job starts there.
    public let isPaused: Bool
    /// The maximum number of jobs that run at once over all workers, in each partition. nil if only the workers' slots limit it.
    public let maxRunning: Int?
    /// The number of workers that have sent a heartbeat in the last 10 seconds. If it is 0, pushed jobs wait.
    public let workers: Int
    /// The number of deferred jobs by kind: the worker that claimed them does not run this kind. They
    /// wait for a worker that does.
    public let deferred: [String: Int]
}

/// A worker, as it has registered in Redis.
public struct WorkerStatus: Sendable, Equatable, Identifiable {
    /// The state of a worker.
    public enum State: String, Sendable {
        /// The worker takes jobs.
        case working
        /// The worker drains, because an operator asked for it: it takes no more jobs, and finishes those that it has.
        case quiet
        /// The worker shuts down: it puts its jobs back and ends.
        case ending
        /// The worker sent no heartbeat for the time of its lease. Other workers run its jobs.
        case lost
    }
    /// The worker's name.
    public let id: String
    /// The worker's state.
    public let state: State
    /// The name of the worker's host.
    public let host: String?
    /// The id of the worker's process on this host.
    public let pid: Int?
    /// The worker's version of Haul.
    public let version: String?
    /// The number of jobs that the worker can run at once.
    public let slots: Int?
    /// The number of jobs that the worker runs now.
    public let running: Int?
    /// The bytes that downloads may use on the disk of the worker's root. nil if its files go to a bucket.
    public let free: Int64?
    /// The time of the last heartbeat, in unix milliseconds by Redis' clock.
    public let seen: Int64?
}

extension WorkerStatus.State {
    fileprivate init(_ state: WorkerState) {
        self =
            switch state {
            case .working: .working
            case .quiet: .quiet
            case .ending: .ending
            case .lost: .lost
            }
    }
}

extension HaulQueue {
    /// The ids of the jobs in `state`, oldest first. For queued jobs the ids come from the waiting elements, which may be
    /// repeated pushes of jobs that run or have ended: `list(.queued)` leaves these out.
    ///
    /// - Parameters:
    ///   - state: Any state.
    ///   - skipping: The number of jobs to skip.
    ///   - limit: The maximum number of ids to return.
    public func ids(
        in state: JobState, skipping: Int = 0, limit: Int = 1000
    ) async throws(HaulError) -> [String] {
        guard limit > 0 else { return [] }
        return try await mappingErrors { () throws(RedisError) in
            try await queue.ids(in: state, from: Swift.max(0, skipping), limit: limit)
        }
    }

    /// The ids of the jobs that have this URL, whole and with its query, as their URL or as a mirror. Sorted. A job is
    /// found until it is removed; records mask queries, so the queue keeps a digest of each URL.
    public func ids(withURL url: String) async throws(HaulError) -> [String] {
        try await mappingErrors { () throws(RedisError) in try await queue.jobs(ofURLs: [url]) }.ids[url] ?? []
    }

    /// The digest by which a URL is found.
    package static func digest(ofURL url: String) -> String { Queue.digest(ofURL: url) }

    /// The jobs with these ids, as in their hashes, in the order of `ids`. Leaves out unknown jobs.
    public func status(of ids: [String]) async throws(HaulError) -> [JobStatus] {
        var result: [JobStatus] = []
        for page in ids.chunks(ofCount: 500) {
            result += try await mappingErrors { () throws(RedisError) in try await queue.jobs(Array(page)) }.map(
                JobStatus.init)
        }
        return result
    }

    /// How many jobs are in each state, and how many workers serve the queue.
    public func stats() async throws(HaulError) -> QueueStatistics {
        let (stats, workers) = try await mappingErrors { () throws(RedisError) in
            (try await queue.stats(), try await queue.workerCount())
        }
        return QueueStatistics(
            counts: stats.counts, rejected: stats.rejected, isPaused: stats.isPaused, maxRunning: stats.maxRunning,
            workers: workers, deferred: stats.deferred)
    }

    /// The registered workers, including lost ones.
    public func workers() async throws(HaulError) -> [WorkerStatus] {
        let (workers, now) = try await mappingErrors { () throws(RedisError) in
            (try await queue.workers(), try await queue.time())
        }
        return workers.map { name, fields in
            WorkerStatus(
                id: name, state: .init(WorkerState(fields, now: now)), host: fields["host"],
                pid: fields["pid"].flatMap { Int($0) }, version: fields["version"],
                slots: fields["slots"].flatMap { Int($0) }, running: fields["running"].flatMap { Int($0) },
                free: fields["free"].flatMap { Int64($0) }, seen: fields["seen"].flatMap { Int64($0) })
        }
    }
}
