import HaulBus
import HaulRedis

/// A handle of a job. `push` returns it, and ``HaulQueue/job(_:pushedAt:)`` for a job that was pushed elsewhere.
public struct JobHandle: Sendable, Identifiable {
    /// The job's id.
    public let id: String
    /// The ``Job/at`` of the push, in unix milliseconds. The handle ignores an older end of the job. nil if the handle
    /// belongs to no push.
    public let pushedAt: Int64?
    let queue: HaulQueue

    init(id: String, pushedAt: Int64?, of queue: HaulQueue) {
        (self.id, self.pushedAt, self.queue) = (id, pushedAt, queue)
    }

    /// The job as in its hash. nil until a worker has seen the job, and after the job was removed or has expired.
    public func status() async throws(HaulError) -> JobStatus? {
        try await mappingErrors { () throws(RedisError) in try await queue.queue.job(id) }.map(JobStatus.init)
    }

    /// The events of the job until its end.
    ///
    /// The first element is the job's ``JobUpdate/status(_:)``, if the job is known already. Then follow the events,
    /// each once and in order. If events were missed, a status read from the hash replaces them. The sequence ends
    /// after the job's end. The last element announces this end, unless the job was removed. The sequence of a handle with
    /// ``pushedAt`` also ends after the event that its push was rejected. It goes on while Redis cannot be reached.
    ///
    /// Each iteration is one subscription over the queue's connection for events.
    public var events: JobEvents { JobEvents(handle: self) }

    /// Waits until the job is completed, failed or cancelled. Returns at once if the job has ended already.
    ///
    /// An event only wakes this call, which then reads the job's hash. It also reads the hash every 15 seconds, in case
    /// an event is lost.
    ///
    /// - Parameter timeout: nil waits without a limit.
    /// - Throws: ``HaulError/Code-swift.struct/timedOut`` if the job has not ended in time. The message gives the job's
    ///   state, and the job goes on. ``HaulError/Code-swift.struct/rejected`` if a worker found that the pushed element
    ///   is not valid. If that happened before this call subscribed, only a Redis user who may read the rejected
    ///   elements learns of it; with the role `service` the call times out then. A failed job is a result and not an
    ///   error, unless you call ``JobResult/get()``.
    public func result(timeout: Duration? = nil) async throws(HaulError) -> JobResult {
        try await ResultWait(handle: self, deadline: timeout.map { .now + $0 }).result()
    }

    /// Pauses the job. Its bytes are kept.
    public func pause() async throws(HaulError) { try await queue.pause([id]) }
    /// Resumes the paused job.
    public func resume() async throws(HaulError) { try await queue.resume([id]) }
    /// Runs the failed job again.
    public func retry() async throws(HaulError) { try await queue.retry([id]) }
    /// Cancels the job, and removes its partial file.
    public func cancel() async throws(HaulError) { try await queue.cancel([id]) }
    /// Removes the job from Redis. `files` deletes the finished file as well.
    public func remove(files: Bool = false) async throws(HaulError) { try await queue.remove([id], files: files) }
}

extension JobHandle {
    /// Whether the job's end that the handle waits for has come.
    enum EndState {
        case ended(JobStatus)
        case removed
        /// The job has not ended. The status is nil if no worker has seen the job.
        case open(JobStatus?)
    }

    /// Reads the job's hash.
    ///
    /// - Parameter wasKnown: Whether the job was known before, so that it was removed if it is not known now. Of a push
    ///   with a time Redis tells that, for an hour.
    func readEndState(wasKnown: Bool) async throws(HaulError) -> EndState {
        let record = try await mappingErrors { () throws(RedisError) in try await queue.queue.job(id) }
        if let record {
            let hasEnded = pushedAt.map(record.hasEnded(since:)) ?? record.hasEnded
            return hasEnded ? .ended(JobStatus(record)) : .open(JobStatus(record))
        }
        // A removed job leaves a record of that. Without one, Redis may have lost the job's last seconds.
        guard wasKnown || pushedAt != nil else { return .open(nil) }
        let removed = try await mappingErrors { () throws(RedisError) in
            try await queue.queue.removed([id: pushedAt ?? 1])
        }
        return removed.isEmpty ? .open(nil) : .removed
    }

    /// The event that the push was rejected; nil if it was not.
    ///
    /// - Parameter event: An event `rejected` of the job, which may be about another push of it.
    func rejection(_ event: Event? = nil) async throws(HaulError) -> Event? {
        let push = KnownPush(id: id, timestamp: pushedAt)
        return try await mappingErrors { () throws(RedisError) in
            // Without an event callers search again and again.
            try await queue.queue.rejections(
                of: [push], events: event.map { [$0] } ?? [], searching: event == nil ? 20 : 100)
        }[id]
    }
}
