import HaulBus
import HaulRedis

/// The events of all jobs of a queue: ``HaulQueue/events``.
public struct QueueEvents: AsyncSequence, Sendable {
    /// An event, or the status of a job.
    public typealias Element = JobUpdate
    /// Its code is ``HaulError/Code-swift.struct/refused``, ``HaulError/Code-swift.struct/cancelled``,
    /// ``HaulError/Code-swift.struct/closed``, or another one if Redis fails.
    public typealias Failure = HaulError

    let queue: HaulQueue

    /// Subscribes to the queue's events.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(queue) }

    /// The iterator of one consumer.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        /// The maximum number of unfinished jobs whose positions are kept. Gaps in the events of others go unnoticed.
        static let maxKnown = 100_000
        /// The longest expected time from an event's publication to its arrival, in milliseconds.
        private static let slack: Int64 = 5000

        private let queue: HaulQueue
        private let messages: Subscription.Iterator
        /// The position of the last update of each unfinished job.
        private var positions: [String: EventPosition] = [:]
        /// Statuses that replace missed events and that `next` has not returned yet, the next one last.
        private var healed: [JobStatus] = []
        /// When the latest event was published, or when `catchUp` last ran: unix milliseconds by Redis' clock.
        private var lastEventTime: Int64?
        private let begun = ContinuousClock.now

        fileprivate init(_ queue: HaulQueue) {
            self.queue = queue
            messages = queue.subscription(to: nil).makeAsyncIterator()
        }

        /// The number of buffered messages.
        package var bufferedCount: Int { messages.bufferedCount }

        /// Waits for the next update. The sequence does not end by itself.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(HaulError) -> JobUpdate? {
            while true {
                if let status = healed.popLast() { return .status(status) }
                guard let element = await messages.next() else {
                    throw messages.isFinished ? .closed : .cancelled
                }
                switch element {
                case .interrupted(let error):
                    let error = HaulError(error)
                    if error.code == .refused { throw error }
                case .subscribed: try await catchUp()
                case .message(_, let payload):
                    guard let event = Event(payload) else { continue }
                    lastEventTime = Swift.max(lastEventTime ?? 0, event.at)
                    if let update = try await take(event) { return update }
                }
            }
        }

        public mutating func next() async throws(HaulError) -> JobUpdate? { try await next(isolation: nil) }

        private mutating func take(_ event: Event) async throws(HaulError) -> JobUpdate? {
            // A batch has no job hash that could replace missed events.
            guard let newPosition = event.position, event.kind != .batchEnded else { return .event(event) }
            if let position = positions[event.id] {
                guard newPosition > position else { return nil }
                if !newPosition.follows(position), let status = try await status(of: [event.id], after: positions).first
                {
                    record(status)
                    return .status(status)
                }
            }
            record(event.id, at: newPosition, isFinal: event.finalState != nil)
            return .event(event)
        }

        private mutating func record(_ status: JobStatus) {
            record(status.id, at: status.position, isFinal: status.record.hasEnded)
        }

        private mutating func record(_ id: String, at newPosition: EventPosition, isFinal: Bool) {
            // No event of this run can follow the job's end. If the job runs again, its position is recorded again.
            positions[id] = isFinal ? nil : newPosition
            if positions.count > Self.maxKnown, let some = positions.keys.first { positions[some] = nil }
        }

        /// Reads the unfinished jobs, and those that ended or were paused while there was no subscription.
        private mutating func catchUp() async throws(HaulError) {
            let now = try await read { queue throws(RedisError) in try await queue.time() }
            // The first time, only jobs since the beginning of the iteration count.
            let since =
                lastEventTime.map { $0 - Self.slack } ?? now - Int64((ContinuousClock.now - begun) / .milliseconds(1))
            var ids = Set(positions.keys)
            for state in [JobState.completed, .failed, .cancelled, .paused] {
                ids.formUnion(
                    try await read { queue throws(RedisError) in
                        // They are all held in memory.
                        try await queue.ids(in: state, since: since, limit: 100_000)
                    })
            }
            for page in Array(ids).chunks(ofCount: 500) {
                // A job of a schedule is listed as if it had ended again each time that it is kept for longer.
                let news = try await status(of: Array(page), after: positions)
                    .filter { positions[$0.id] != nil || !$0.record.hasEnded || $0.finished ?? .max >= since }
                for status in news { record(status) }
                healed += news
            }
            // `next` takes them from the end, so the oldest comes last.
            healed.sort { ($0.updated ?? 0) > ($1.updated ?? 0) }
            lastEventTime = now
        }

        /// The jobs whose hashes are newer than their last update.
        private func status(
            of ids: [String], after positions: [String: EventPosition]
        ) async throws(HaulError) -> [JobStatus] {
            try await read { queue throws(RedisError) in try await queue.jobs(ids) }.map(JobStatus.init)
                .filter { $0.position > positions[$0.id] ?? .none }
        }

        /// Reads from Redis, as soon as it can be reached.
        private func read<T>(_ body: (Queue) async throws(RedisError) -> T) async throws(HaulError) -> T {
            try await retryingWhileUnreachable { () throws(HaulError) in
                try await mappingErrors { () throws(RedisError) in try await body(queue.queue) }
            }
        }
    }
}

extension HaulQueue {
    /// The events of all jobs of the queue, from now on.
    ///
    /// The events of each job come in order. If events of a job were missed, a ``JobUpdate/status(_:)`` read from its
    /// hash replaces them. After a lost connection this happens for all unfinished jobs, and for jobs that ended in the
    /// meantime; a status may then repeat what an earlier update has announced. A consumer that is too slow also misses
    /// events: at most 50,000 messages or about 16 MiB are buffered.
    ///
    /// The sequence goes on while Redis cannot be reached, and does not end by itself.
    public var events: QueueEvents { QueueEvents(queue: self) }

    /// Subscribes to the channels of these jobs, or of all jobs if `ids` is nil.
    func subscription(to ids: [String]?) -> Subscription { queue.events(of: ids, over: subscriber) }
}
