import HaulBus
import HaulRedis

/// A batch of a queue: the jobs that were pushed with its name in ``Job/batch``.
public struct BatchHandle: Sendable, Identifiable {
    /// The batch's name.
    public let id: String
    let queue: HaulQueue

    /// The current counts of the batch. nil until a worker has seen one of its jobs, and after the batch has expired.
    public func status() async throws(HaulError) -> BatchStatus? {
        try await mappingErrors { () throws(RedisError) in try await queue.queue.batch(id) }.map(BatchStatus.init)
    }

    /// Waits until the batch has ended: as many of its jobs have ended as its size says, and none is pending.
    ///
    /// An event only wakes this call, which then reads the counts. It also reads them every 15 seconds, in case that an
    /// event is lost.
    ///
    /// - Parameters:
    ///   - round: The round whose end is already known. After a retry of some jobs pass the last ``BatchStatus/round``
    ///     to wait for the next end. 0 waits for the first end.
    ///   - timeout: nil waits without a limit.
    /// - Throws: ``HaulError/Code-swift.struct/timedOut`` if the batch has not ended in time. Its jobs go on.
    public func result(after round: Int = 0, timeout: Duration? = nil) async throws(HaulError) -> BatchStatus {
        let messages = queue.subscription(to: [channel]).makeAsyncIterator()
        let deadline = timeout.map { ContinuousClock.now + $0 }
        while true {
            let known = try await retryingWhileUnreachable(until: deadline, status)
            if let known, known.hasEnded, known.round > round { return known }
            if Task.isCancelled { throw .cancelled }
            if let deadline, deadline <= .now {
                let what =
                    known.map { "\($0.pending) jobs of the batch \(id) are pending" }
                    ?? "no worker has seen the batch \(id)"
                throw HaulError(.timedOut, "\(what) when the timeout ended")
            }
            let next = ContinuousClock.now + ResultWait.pollInterval
            let element = await messages.next(until: min(next, deadline ?? next))
            if messages.isFinished { throw .closed }
            if case .interrupted(let error) = element, HaulError(error).code == .refused { throw HaulError(error) }
        }
    }

    /// Pauses the batch's jobs, and those that join the batch later, until ``resume()``.
    public func pause() async throws(HaulError) { try await write(.paused) }
    /// Resumes the batch's paused jobs.
    public func resume() async throws(HaulError) { try await write(.running) }
    /// Runs the batch's failed jobs again.
    public func retry() async throws(HaulError) { try await write(.retried) }
    /// Cancels the batch's jobs that have not ended, including jobs that were pushed but not yet seen by a worker.
    public func cancel() async throws(HaulError) { try await write(.cancelled) }

    private var channel: String { "batch/\(id)" }

    private func write(_ operation: BatchOperation) async throws(HaulError) {
        _ = try await mappingErrors { () throws(RedisError) in try await queue.queue.request(operation, ofBatch: id) }
    }
}

/// The counts of a batch. Each job counts once, in its current state.
public struct BatchStatus: Sendable, Equatable, Identifiable {
    /// The batch's name.
    public let id: String
    /// Jobs that a worker has seen and that have not ended.
    public let pending: Int
    /// Jobs that are completed.
    public let completed: Int
    /// Jobs that have failed.
    public let failed: Int
    /// Jobs that were cancelled.
    public let cancelled: Int
    /// Elements that were not valid jobs.
    public let rejected: Int
    /// How many jobs the batch has. nil if none of its jobs has given the size.
    public let size: Int?
    /// How many times the batch has ended.
    public let round: Int
    /// When the batch ended, in unix milliseconds by Redis' clock. nil if it has not ended.
    public let finished: Int64?
    /// Whether the batch has ended: as many jobs have ended as the size says, and none is pending.
    public var hasEnded: Bool { finished != nil }

    init(_ record: BatchRecord) {
        func count(_ state: BatchState) -> Int { record.counts[state] ?? 0 }
        id = record.name
        (pending, completed, failed) = (count(.pending), count(.completed), count(.failed))
        (cancelled, rejected) = (count(.cancelled), count(.rejected))
        (size, round, finished) = (record.size, record.round, record.finished)
    }

    /// The counts in an event of the kind ``Event/Kind-swift.struct/batchEnded``.
    init(_ event: Event) {
        func count(_ member: String) -> Int { event[member]?.integer.map { Int($0) } ?? 0 }
        id = event.batch ?? ""
        (pending, completed, failed) = (0, count("completed"), count("failed"))
        (cancelled, rejected) = (count("cancelled"), count("rejected"))
        (size, round, finished) = (event["size"]?.integer.map { Int($0) }, event.round ?? 0, event.at)
    }
}

extension HaulQueue {
    /// A handle of the batch with this name, no matter which service pushed its jobs. Sends nothing to Redis.
    public func batch(_ name: String) -> BatchHandle { BatchHandle(id: name, queue: self) }
}
