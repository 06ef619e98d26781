import HaulBus
import HaulRedis
import Logging

/// The ends of jobs and batches: ``HaulQueue/replies(to:open:every:)``.
public struct Replies: AsyncSequence, Sendable {
    /// An end.
    public typealias Element = Reply
    /// A ``HaulError`` whose code is ``HaulError/Code-swift.struct/refused``,
    /// ``HaulError/Code-swift.struct/cancelled``, ``HaulError/Code-swift.struct/closed``, or another one if Redis
    /// fails; or what your closure for the open jobs has thrown.
    public typealias Failure = any Error

    let queue: HaulQueue
    let name: String
    let open: (@Sendable () async throws -> [JobHandle])?
    let interval: Duration

    /// Begins with the ends that were delivered earlier and not acknowledged.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// The iterator of one consumer.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        /// For how long one command waits for a reply. A server that has vanished is noticed a few seconds later.
        private static let block = Duration.seconds(2)
        /// How many open jobs one call reads.
        private static let pageSize = 500

        private let replies: Replies
        private let consumer: ReplyConsumer
        /// A connection of its own for each partition, because a command that blocks would delay all later commands of
        /// its connection.
        private let connections: [OpenConnections.Held]
        /// What was read and not delivered yet, the next one last.
        private var found: [Reply] = []
        /// Whether the list of taken replies must be read: at the start, and after a failure, because the reply to a
        /// BLMOVE may be lost.
        private var mustReadTaken = true
        private var nextSweep = ContinuousClock.now
        private var failures = 0

        fileprivate init(_ replies: Replies) {
            self.replies = replies
            consumer = ReplyConsumer(replies.queue, name: replies.name)
            connections = replies.queue.queue.parts.map { [queue = replies.queue] _ in
                queue.connections.open { queue.client(for: "replies") }
            }
        }

        /// Waits for the next end. The sequence does not end by itself.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Reply? {
            while true {
                while let reply = found.popLast() {
                    if consumer.deliver(reply) { return reply }
                    // If Redis is away, it is dropped when what was taken is read again.
                    try? await consumer.drop(reply)
                }
                if Task.isCancelled { throw HaulError.cancelled }
                var open: [JobHandle]?
                if nextSweep <= .now, let read = replies.open { open = try await read() }
                do throws(RedisError) {
                    try await read(open)
                    failures = 0
                } catch {
                    guard error.isTransient, error != .clientClosed else {
                        throw error.code == .cancelled ? HaulError.cancelled : HaulError(error)
                    }
                    (mustReadTaken, nextSweep) = (true, .now)
                    failures += 1
                    try? await Task.sleep(for: .milliseconds(Swift.min(1000, 25 << Swift.min(failures, 6))))
                }
            }
        }

        /// Waits for the next end. The sequence does not end by itself.
        public mutating func next() async throws -> Reply? { try await next(isolation: nil) }

        /// Reads what was taken earlier, then the open jobs, and otherwise waits for a reply.
        ///
        /// - Parameter open: The open jobs, if it is time to read their hashes.
        private mutating func read(_ open: [JobHandle]?) async throws(RedisError) {
            let queue = replies.queue.queue
            var news: [Reply] = []
            if mustReadTaken {
                news = try await accept(try await queue.takenReplies(to: replies.name))
                mustReadTaken = false
            }
            if let open {
                news += try await ended(open)
                nextSweep = .now + replies.interval
            }
            if news.isEmpty {
                news = try await accept(
                    try await queue.takeReplies(
                        to: replies.name, within: Self.block, on: connections.map(\.redis)))
            }
            found = news.reversed()
        }

        /// Reads replies as ends. Removes those that are not ends, or that were acknowledged already.
        private func accept(_ texts: [[UInt8]]) async throws(RedisError) -> [Reply] {
            var ends: [Reply] = []
            for text in texts {
                let reply = Reply(text, of: consumer)
                if let reply, !consumer.isAcknowledged(reply.identity) {
                    ends.append(reply)
                    continue
                }
                let event = Event(text)
                // Neither `meta` nor a response: both may be secret.
                let about: Logger.Metadata = [
                    "reply_to": "\(replies.name)", "job": "\(event?.id ?? "unknown")",
                    "event": "\(event?.name ?? "unknown")", "reason": "\(event?.reason ?? "")",
                ]
                if reply == nil {
                    replies.queue.logger.warning("ignoring a reply, because it is not an end", metadata: about)
                } else {
                    replies.queue.logger.debug("ignoring a reply that was acknowledged before", metadata: about)
                }
                try await replies.queue.queue.acknowledge(text, to: replies.name)
            }
            return ends
        }

        /// The ends of open jobs, from their hashes.
        private func ended(_ open: [JobHandle]) async throws(RedisError) -> [Reply] {
            var ends: [Reply] = []
            for page in open.chunks(ofCount: Self.pageSize) {
                let pushes = page.map { KnownPush(id: $0.id, timestamp: $0.pushedAt) }
                let (jobs, removed) = try await replies.queue.queue.ended(pushes)
                for record in jobs {
                    let status = JobStatus(record)
                    ends.append(
                        Reply(
                            .job(JobResult(status)), id: status.id, at: status.finished ?? 0,
                            .event(id: status.id, status.position), nil, of: consumer))
                }
                for push in removed {
                    ends.append(
                        Reply(
                            .job(JobResult(removed: push.id, meta: nil)), id: push.id, at: push.timestamp ?? 0,
                            .removed(id: push.id, pushedAt: push.timestamp), nil, of: consumer))
                }
            }
            return ends
        }
    }
}

extension HaulQueue {
    /// The ends of the jobs and batches with this ``Job/replyTo``, each at least once, until you acknowledge it.
    ///
    ///     for try await reply in try queue.replies(to: "shop", open: { await orders.open(on: queue) }) {
    ///         try await orders.close(reply)
    ///         try await reply.acknowledge()
    ///     }
    ///
    /// A reply moves from its list in Redis to a list of the replies that were taken, and stays there until
    /// ``Reply/acknowledge()``, at most for a week after the last one was taken. What was not acknowledged is delivered
    /// again when the iteration starts again, and to each other consumer of this name that starts meanwhile. So record an
    /// end in a way that a second one changes nothing. A reply that is not an end is removed and logged.
    ///
    /// Redis may lose a reply, and keeps only the newest 1000 of each name for a day. With `open` no end is lost even
    /// then, because the hashes of your open jobs are read as well: at the start, after a lost connection, and at the
    /// given interval.
    ///
    /// The sequence does not end by itself, and goes on while Redis cannot be reached. Each iteration has a connection of
    /// its own, so one for each service is better than one for each job.
    ///
    /// - Parameters:
    ///   - name: The name that the jobs have as ``Job/replyTo``, or a batch as ``Job/Batch-swift.struct/replyTo``.
    ///   - open: Returns the jobs that your own records have as open: ``job(_:pushedAt:)`` with the id and the
    ///     ``Job/at`` of each push. An error that it throws ends the sequence.
    ///   - interval: How often `open` is called.
    /// - Throws: ``HaulError/Code-swift.struct/invalidJob`` with the field `reply_to` if the name is not valid.
    public func replies(
        to name: String, open: (@Sendable () async throws -> [JobHandle])? = nil,
        every interval: Duration = .seconds(60)
    ) throws(HaulError) -> Replies {
        guard JobField.isID(name) else {
            let rule = "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -, not \(JSON.quoted(name))"
            throw HaulError(Job.Invalid(field: "reply_to", reason: rule))
        }
        return Replies(queue: self, name: name, open: open, interval: interval)
    }
}
