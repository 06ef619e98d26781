import HaulBus
import HaulContract
import HaulRedis

/// The jobs in a state: ``HaulQueue/list(_:where:pageSize:)``.
public struct JobList: AsyncSequence, Sendable {
    /// A job as in its hash.
    public typealias Element = JobStatus
    /// Its code is ``HaulError/Code-swift.struct/unreachable``, ``HaulError/Code-swift.struct/refused``,
    /// ``HaulError/Code-swift.struct/closed``, or another one if Redis fails.
    public typealias Failure = HaulError

    /// What a job must have to be in the list. A value of nil does not matter.
    public struct Filter: Sendable, Equatable {
        /// Why the job or its last attempt failed.
        public var error: ErrorCode?
        /// The host of the job's first URL, in lower case and without a port.
        public var host: String?
        /// The name of the worker that runs the job, or that ended it.
        public var worker: String?
        /// The name of a batch to which the job belongs.
        public var batch: String?
        /// The group with which the job takes turns.
        public var group: String?

        /// The filter with these values. Without any all jobs pass.
        public init(
            error: ErrorCode? = nil, host: String? = nil, worker: String? = nil, batch: String? = nil,
            group: String? = nil
        ) {
            (self.error, self.host, self.worker, self.batch) = (error, host, worker, batch)
            self.group = group
        }

        /// The fields of a job's hash that decide.
        fileprivate var fields: [String] {
            [
                error.map { _ in "error" }, host.map { _ in "url" }, worker.map { _ in "worker" },
                batch.map { _ in "batch" }, group.map { _ in "group" },
            ].compactMap(\.self)
        }

        fileprivate func accepts(_ job: [String: String]) -> Bool {
            if let error, job["error"] != error.rawValue { return false }
            if let host, job["url"].flatMap(MaskedURL.host) != host { return false }
            if let worker, job["worker"] != worker { return false }
            if let batch, !(job["batch"] ?? "").split(separator: " ").contains(batch[...]) { return false }
            if let group, job["group"] != group { return false }
            return true
        }
    }

    let queue: HaulQueue
    let state: JobState
    let filter: Filter
    let pageSize: Int

    /// Begins with the first page.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// One pass through the list.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        /// Where the next page begins.
        private enum Position {
            case start
            case index(IndexPosition, until: Int64?)
            /// Elements of the waiting lists, as they were at the start.
            case waiting(WaitingLists, Int)
            /// The ids of the running jobs that were not read yet, the next one last.
            case running([String])
            case end
        }

        private let list: JobList
        private var position = Position.start
        /// What was read and not returned yet, the next one last.
        private var jobs: [JobStatus] = []

        fileprivate init(_ list: JobList) { self.list = list }

        /// The next job. nil at the end.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(HaulError) -> JobStatus? {
            while true {
                if let job = jobs.popLast() { return job }
                if case .end = position { return nil }
                if Task.isCancelled { throw .cancelled }
                let ids: [String]
                do { ids = try await nextPage() } catch { throw HaulError(error) }
                do { jobs = try await read(ids).reversed() } catch { throw HaulError(error) }
            }
        }

        /// The next job. nil at the end.
        public mutating func next() async throws(HaulError) -> JobStatus? { try await next(isolation: nil) }

        private mutating func nextPage() async throws(RedisError) -> [String] {
            let queue = list.queue.queue
            if case .start = position { position = try await start() }
            let limit = list.pageSize
            var ids: [String] = []
            switch position {
            case .index(var index, let end):
                ids = try await queue.listed(in: list.state, after: &index, until: end, limit: limit).map(\.id)
                position = ids.count < limit ? .end : .index(index, until: end)
            case .waiting(let lists, let start):
                ids = try await queue.listed(in: .queued, from: start, limit: limit, lists).map(\.id)
                position = start + limit < lists.count ? .waiting(lists, start + limit) : .end
            case .running(var rest):
                ids = rest.suffix(limit).reversed()
                rest.removeLast(ids.count)
                position = rest.isEmpty ? .end : .running(rest)
            case .start, .end: break
            }
            return ids
        }

        private func start() async throws(RedisError) -> Position {
            let queue = list.queue.queue
            switch list.state {
            case .queued: return .waiting(try await queue.waitingLists(), 0)
            case .running: return .running(try await queue.runningIDs().reversed())
            case .scheduled, .paused, .completed, .failed, .cancelled:
                return .index(IndexPosition(), until: try await queue.end(of: list.state))
            }
        }

        /// Reads the hashes of a page, but those that the filter leaves out only in part.
        private func read(_ ids: [String]) async throws(RedisError) -> [JobStatus] {
            let queue = list.queue.queue
            var ids = ids
            if !list.filter.fields.isEmpty {
                let fields = try await queue.fields(list.filter.fields, of: ids)
                ids = zip(ids, fields).filter { list.filter.accepts($0.1) }.map(\.0)
            }
            return try await queue.jobs(ids).map(JobStatus.init)
        }
    }
}

extension HaulQueue {
    /// The jobs in `state`, as in their hashes, read page by page while you iterate.
    ///
    ///     for try await job in queue.list(.failed, where: .init(error: .http(503))) { print(job.id) }
    ///
    /// Ended and paused jobs come oldest first, scheduled ones by due time, queued ones in the order in which they will
    /// run, and running ones in the order of their ids. The
    /// partitions of a queue come one after the other. A job that gets into the state during the iteration may be left
    /// out. Ended, paused and scheduled jobs are neither repeated nor left out because others come or go. A queued job
    /// that no worker has seen has no hash yet, and is left out; ``ids(in:skipping:limit:)`` includes it.
    ///
    /// - Parameters:
    ///   - state: Any state.
    ///   - filter: What a job must have. The filter is applied to the fields that it needs, before whole hashes are read.
    ///   - pageSize: How many jobs one call reads, from 1 to 200. A hash may have a response of up to 1 MiB.
    public func list(_ state: JobState, where filter: JobList.Filter = .init(), pageSize: Int = 100) -> JobList {
        JobList(queue: self, state: state, filter: filter, pageSize: Swift.min(Swift.max(1, pageSize), 200))
    }
}
