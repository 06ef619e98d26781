import HaulBus
import HaulRedis

/// How many jobs are where.
public struct QueueStatistics: Sendable, Equatable {
    /// Jobs by state; of queued ones, how many elements are in line.
    public let counts: [JobState: Int]
    /// Elements that were no valid job, at most the newest 1000.
    public let rejected: Int
    /// No more jobs are started.
    public let isPaused: Bool
    /// How many jobs may run at once over all workers; nil for as many as there are slots.
    public let maxRunning: Int?
    /// How many workers have looked after the queue in the last 10 seconds. 0: what is pushed waits.
    public let workers: Int
    /// Jobs of a kind that the workers which took them do not do, by that kind. They wait for a worker that does it.
    public let setAside: [String: Int]
}

/// A worker as Redis knows it.
public struct WorkerStatus: Sendable, Equatable, Identifiable {
    /// What a worker is at.
    public enum State: String, Sendable {
        /// It takes jobs.
        case working
        /// It takes no more jobs, because it was asked to, and finishes those that it has.
        case quiet
        /// It puts its jobs back and ends.
        case ending
        /// It was not heard of for its lease: its jobs run elsewhere.
        case lost
    }
    /// The worker's name.
    public let id: String
    /// What it is at.
    public let state: State
    /// The host that it runs on.
    public let host: String?
    /// Its process there.
    public let pid: Int?
    /// The version of Haul.
    public let version: String?
    /// How many jobs it runs at once.
    public let slots: Int?
    /// How many it runs now.
    public let running: Int?
    /// When it was last heard of, unix ms by Redis' clock.
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
    /// The ids in `state`, oldest first. Queued jobs are told by their elements.
    ///
    /// - Parameters:
    ///   - state: Any state.
    ///   - skipping: So many from the beginning are left out.
    ///   - limit: At most so many are told.
    public func ids(
        in state: JobState, skipping: Int = 0, limit: Int = 1000
    ) async throws(HaulError) -> [String] {
        guard limit > 0 else { return [] }
        return try await reaching { () throws(RedisError) in
            try await queue.ids(in: state, from: Swift.max(0, skipping), limit: limit)
        }
    }

    /// The jobs in `state`, oldest first, as their hashes tell them. A job in line that no worker has seen has no hash, and is
    /// not told: ``ids(in:skipping:limit:)`` names it.
    public func list(
        _ state: JobState, skipping: Int = 0, limit: Int = 1000
    ) async throws(HaulError) -> [JobStatus] {
        try await status(of: ids(in: state, skipping: skipping, limit: limit))
    }

    /// What the hashes of jobs say, in the order of `ids`. Those that are not known are left out.
    public func status(of ids: [String]) async throws(HaulError) -> [JobStatus] {
        var result: [JobStatus] = []
        for page in ids.pages(of: 500) {
            result += try await reaching { () throws(RedisError) in try await queue.jobs(Array(page)) }.map(
                JobStatus.init)
        }
        return result
    }

    /// How many jobs are where, and how many workers serve the queue.
    public func stats() async throws(HaulError) -> QueueStatistics {
        let (stats, workers) = try await reaching { () throws(RedisError) in
            (try await queue.stats(), try await queue.workerCount())
        }
        return QueueStatistics(
            counts: stats.counts, rejected: stats.rejected, isPaused: stats.isPaused, maxRunning: stats.maxRunning,
            workers: workers, setAside: stats.setAside)
    }

    /// The workers that are known, also those that were not heard of for a while.
    public func workers() async throws(HaulError) -> [WorkerStatus] {
        let (workers, now) = try await reaching { () throws(RedisError) in
            (try await queue.workers(), try await queue.now())
        }
        return workers.map { name, fields in
            WorkerStatus(
                id: name, state: .init(WorkerState(fields, now: now)), host: fields["host"],
                pid: fields["pid"].flatMap { Int($0) }, version: fields["version"],
                slots: fields["slots"].flatMap { Int($0) }, running: fields["running"].flatMap { Int($0) },
                seen: fields["seen"].flatMap { Int64($0) })
        }
    }

    /// The next final event on the list `haul:{QUEUE}:reply:<name>`, oldest first: jobs that were pushed with that
    /// ``Job/replyTo`` end there, also while this service is not up. Redis keeps the newest 1000 of a name for a day.
    ///
    /// What was taken is gone: a service that crashes with it in hand reads the job's status.
    ///
    /// - Returns: nil if none came in time.
    public func reply(to name: String, timeout: Duration) async throws(HaulError) -> Event? {
        // Of its own: several names may be waited for.
        let client = Redis(queue.redis.url, name: "haul-client-replies")
        let reply: [UInt8]?
        do { reply = try await queue.reply(to: name, within: timeout, on: client) } catch {
            await client.close()
            throw HaulError(error)
        }
        await client.close()
        return reply.flatMap { Event($0) }
    }
}
