import HaulBus
import HaulRedis

/// What is told of all jobs of a queue: ``HaulQueue/events``.
public struct QueueEvents: AsyncSequence, Sendable {
    /// What is new.
    public typealias Element = JobUpdate
    /// ``HaulError/Code-swift.struct/refused``, ``HaulError/Code-swift.struct/cancelled``, ``HaulError/Code-swift.struct/closed``, …
    public typealias Failure = HaulError

    let queue: HaulQueue

    /// Subscribes.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(queue) }

    /// One consumer.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        /// So many unfinished jobs are known. Of more than that, gaps are seen for some only.
        static let mostKnown = 100_000
        /// How long ago an event may have been told that is heard now, in ms.
        private static let slack: Int64 = 5000

        private let queue: HaulQueue
        private let messages: Subscription.Iterator
        /// Where each unfinished job stands.
        private var positions: [String: EventPosition] = [:]
        /// Of what was read because events were missed, what was not handed out yet.
        private var healed: [JobStatus] = []
        /// The time of the last event that was heard, unix ms by Redis' clock; nil before the first one.
        private var heard: Int64?
        private let begun = ContinuousClock.now

        fileprivate init(_ queue: HaulQueue) {
            self.queue = queue
            messages = queue.subscription(to: nil).makeAsyncIterator()
        }

        /// How many messages have come and were not asked for yet.
        package var waiting: Int { messages.waiting }

        /// Waits for what is new. The sequence does not end by itself.
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
                    heard = Swift.max(heard ?? 0, event.at)
                    if let update = try await take(event) { return update }
                }
            }
        }

        public mutating func next() async throws(HaulError) -> JobUpdate? { try await next(isolation: nil) }

        private mutating func take(_ event: Event) async throws(HaulError) -> JobUpdate? {
            // A batch has no hash of a job that could stand for events.
            guard let place = event.position, event.kind != .batchEnded else { return .event(event) }
            if let position = positions[event.id] {
                guard place > position else { return nil }
                if !place.follows(position), let status = try await status(of: [event.id], after: positions).first {
                    note(status)
                    return .status(status)
                }
            }
            note(event.id, at: place, isFinal: event.finalState != nil)
            return .event(event)
        }

        private mutating func note(_ status: JobStatus) {
            note(status.id, at: status.position, isFinal: status.record.hasEnded)
        }

        private mutating func note(_ id: String, at place: EventPosition, isFinal: Bool) {
            // Nothing that was told before can come behind its end: a job that runs again begins a new count here.
            positions[id] = isFinal ? nil : place
            if positions.count > Self.mostKnown, let some = positions.keys.first { positions[some] = nil }
        }

        /// Reads what has ended or was paused while nobody listened, and the jobs that were under way then.
        private mutating func catchUp() async throws(HaulError) {
            let now = try await reaching { () throws(RedisError) in try await queue.queue.time() }
            // At first only what came since the iteration began counts.
            let since = heard.map { $0 - Self.slack } ?? now - Int64((ContinuousClock.now - begun) / .milliseconds(1))
            var ids = Set(positions.keys)
            for state in [JobState.completed, .failed, .cancelled, .paused] {
                ids.formUnion(
                    try await reaching { () throws(RedisError) in
                        try await queue.queue.ids(in: state, since: since)
                    })
            }
            for page in Array(ids).pages(of: 500) {
                let news = try await status(of: Array(page), after: positions)
                for status in news { note(status) }
                healed += news
            }
            // They are taken from the end.
            healed.sort { ($0.updated ?? 0) > ($1.updated ?? 0) }
            heard = now
        }

        /// Those whose hashes tell more than was heard.
        private func status(
            of ids: [String], after positions: [String: EventPosition]
        ) async throws(HaulError) -> [JobStatus] {
            try await reaching { () throws(RedisError) in try await queue.queue.jobs(ids) }.map(JobStatus.init)
                .filter { $0.position > positions[$0.id] ?? .none }
        }
    }
}

extension HaulQueue {
    /// What is told of all jobs of the queue, from now on.
    ///
    /// Events of a job come in their order. Where events of a job were missed its hash is read, and ``JobUpdate/status(_:)`` stands
    /// for them. After a lost connection that is done for all jobs that were under way, and for those that ended meanwhile; of
    /// these some may be told that were told before. A consumer that is too slow misses events in the same way: at most 50,000
    /// wait for it, and 16 MiB.
    ///
    /// The sequence does not end by itself.
    public var events: QueueEvents { QueueEvents(queue: self) }

    /// The channels of some jobs, or of all.
    func subscription(to ids: [String]?) -> Subscription { queue.events(of: ids, over: subscriber) }
}
