import HaulBus
import HaulRedis

/// A set of jobs of a queue: those that were pushed with its name in ``Job/batch``.
public struct BatchHandle: Sendable, Identifiable {
    /// The batch's name.
    public let id: String
    let queue: HaulQueue

    /// What is counted of the batch; nil while no worker has seen a job of it, and when it is forgotten.
    public func status() async throws(HaulError) -> BatchStatus? {
        try await reaching { () throws(RedisError) in try await queue.queue.batch(id) }.map(BatchStatus.init)
    }

    /// Waits until the batch is over: as many of its jobs have ended as its size says, and none is pending.
    ///
    /// Events only wake this call. What is counted is also read every 15 seconds, in case that nothing is heard.
    ///
    /// - Parameters:
    ///   - round: Only an end after this one is awaited. So who has retried jobs of the batch awaits the next.
    ///   - timeout: nil waits for as long as it takes.
    /// - Throws: ``HaulError/Code-swift.struct/timedOut``. The jobs go on.
    public func result(after round: Int = 0, timeout: Duration? = nil) async throws(HaulError) -> BatchStatus {
        let messages = queue.subscription(to: [channel]).makeAsyncIterator()
        let deadline = timeout.map { ContinuousClock.now + $0 }
        while true {
            let known = try await status()
            if let known, known.isOver, known.round > round { return known }
            if Task.isCancelled { throw .cancelled }
            if let deadline, deadline <= .now {
                let what =
                    known.map { "\($0.pending) jobs of the batch \(id) are pending" }
                    ?? "no worker has seen the batch \(id)"
                throw HaulError(.timedOut, "\(what) when the time was over")
            }
            let next = ContinuousClock.now + Outcome.patience
            let element = await messages.next(until: min(next, deadline ?? next))
            if messages.isFinished { throw .closed }
            if case .interrupted(let error) = element, HaulError(error).code == .refused { throw HaulError(error) }
        }
    }

    /// Stops the batch: its jobs are paused, and so are those that come later, until ``resume()``.
    public func pause() async throws(HaulError) { try await request(.paused) }
    /// Lets the batch's paused jobs go on.
    public func resume() async throws(HaulError) { try await request(.running) }
    /// Runs the batch's failed jobs once more.
    public func retry() async throws(HaulError) { try await request(.retried) }
    /// Ends the batch's jobs, also those that were pushed and no worker has seen.
    public func cancel() async throws(HaulError) { try await request(.cancelled) }

    private var channel: String { "batch/\(id)" }

    private func request(_ request: BatchRequest) async throws(HaulError) {
        try await reaching { () throws(RedisError) in try await queue.queue.request(request, ofBatch: id) }
    }
}

/// What is counted of a batch. Each job counts once, as it is now.
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
    /// Elements that were no valid job.
    public let rejected: Int
    /// How many jobs the batch has; nil if none of them has said it.
    public let size: Int?
    /// How often the batch has been over.
    public let round: Int
    /// When the batch was over, unix ms by Redis' clock; nil while it is not.
    public let finished: Int64?
    /// Whether as many jobs have ended as the size says, and none is pending.
    public var isOver: Bool { finished != nil }

    init(_ record: BatchRecord) {
        func count(_ state: BatchState) -> Int { record.counts[state] ?? 0 }
        id = record.name
        (pending, completed, failed) = (count(.pending), count(.completed), count(.failed))
        (cancelled, rejected) = (count(.cancelled), count(.rejected))
        (size, round, finished) = (record.size, record.round, record.finished)
    }
}

extension HaulQueue {
    /// A batch that is known by its name, whoever pushed its jobs. Nothing is asked of Redis.
    public func batch(_ name: String) -> BatchHandle { BatchHandle(id: name, queue: self) }
}
