import HaulBus
import HaulRedis

/// A job of a queue: what `push` returns, or ``HaulQueue/job(_:pushedAt:)`` for a job that somebody else pushed.
public struct JobHandle: Sendable, Identifiable {
    /// The job's id.
    public let id: String
    /// The moment of the push, unix ms by Redis' clock; nil if this handle is of no push. An end that is older is not awaited.
    public let pushedAt: Int64?
    let queue: HaulQueue

    init(id: String, pushedAt: Int64?, of queue: HaulQueue) {
        (self.id, self.pushedAt, self.queue) = (id, pushedAt, queue)
    }

    /// What the hash says; nil while no worker has seen the job, and when it is forgotten.
    public func status() async throws(HaulError) -> JobStatus? {
        try await reaching { () throws(RedisError) in try await queue.queue.job(id) }.map(JobStatus.init)
    }

    /// What is told of the job until it has ended.
    ///
    /// First comes what is known already, if anything is. Then come events, each once and in their order. Where events were missed
    /// the hash is read, and its ``JobUpdate/status(_:)`` stands for them. The sequence ends after the job's end, which the last
    /// element tells unless the job was removed.
    ///
    /// Each iteration is one subscription over the queue's connection of events.
    public var events: JobEvents { JobEvents(handle: self) }

    /// Waits until the job is completed, failed or cancelled; at once if it is already.
    ///
    /// Events only wake this call: the hash is the truth. It is also read every 15 seconds, in case that nothing is heard.
    ///
    /// - Parameter timeout: nil waits for as long as it takes.
    /// - Throws: ``HaulError/Code-swift.struct/timedOut`` with what is known of the job. The job goes on.
    ///   ``HaulError/Code-swift.struct/rejected`` if a worker could not read the push. A job that failed is a result, and no error:
    ///   ``JobResult/get()`` makes it one.
    public func result(timeout: Duration? = nil) async throws(HaulError) -> JobResult {
        try await Outcome(handle: self, deadline: timeout.map { .now + $0 }).result()
    }

    /// Stops the job. Its bytes are kept.
    public func pause() async throws(HaulError) { try await queue.pause([id]) }
    /// Lets the paused job go on.
    public func resume() async throws(HaulError) { try await queue.resume([id]) }
    /// Runs the failed job once more.
    public func retry() async throws(HaulError) { try await queue.retry([id]) }
    /// Ends the job, and removes its partial file.
    public func cancel() async throws(HaulError) { try await queue.cancel([id]) }
    /// Forgets the job; `files` deletes the finished file as well.
    public func remove(files: Bool = false) async throws(HaulError) { try await queue.remove([id], files: files) }
}

extension JobHandle {
    /// What is known of the job's end.
    enum Knowledge {
        case ended(JobStatus)
        case removed
        /// Nothing has ended; the job, if it is known.
        case open(JobStatus?)
    }

    func look() async throws(HaulError) -> Knowledge {
        let record = try await reaching { () throws(RedisError) in try await queue.queue.job(id) }
        if let record {
            let hasEnded = pushedAt.map(record.hasEnded(since:)) ?? record.hasEnded
            return hasEnded ? .ended(JobStatus(record)) : .open(JobStatus(record))
        }
        guard let pushedAt else { return .open(nil) }
        let removed = try await reaching { () throws(RedisError) in try await queue.queue.removed([id: pushedAt]) }
        return removed.isEmpty ? .open(nil) : .removed
    }
}
