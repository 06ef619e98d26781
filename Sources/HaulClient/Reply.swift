import HaulBus
import HaulRedis
import Logging
import Synchronization

/// The end of a job or of a batch, as ``HaulQueue/replies(to:open:every:)`` delivers it.
///
/// Call ``acknowledge()`` once your own record of the end is durable. Until then the end is delivered again whenever
/// a consumer of this name starts, for a week.
public struct Reply: Sendable, Identifiable {
    /// What has ended, and how.
    public enum End: Sendable, Equatable {
        /// A job is completed, has failed, or was cancelled or removed.
        case job(JobResult)
        /// All jobs of a batch have ended.
        case batch(BatchStatus)
        /// A worker found that an element is not a valid job. `meta` is the element's, if it could be read.
        case rejected(reason: String, meta: JSON?)
    }

    /// Identifies an end, because the same one may be read from the list and from the job's hash.
    enum Identity: Hashable {
        case event(id: String, EventPosition)
        case removed(id: String, pushedAt: Int64?)
        case text([UInt8])
    }

    /// What has ended, and how.
    public let end: End
    /// The id of the job, or the name of the batch. `unknown` for a rejected element without a valid id.
    public let id: String
    /// When it ended, in unix milliseconds by Redis' clock. If your push is newer, this is the end of an earlier push
    /// of the job: acknowledge it, and wait for the next one.
    public let at: Int64
    let identity: Identity
    /// The reply as it is on the list. nil if the end was read from the job's hash.
    fileprivate let text: [UInt8]?
    private let consumer: ReplyConsumer

    /// How the job ended. nil for a batch and for a rejected element.
    public var result: JobResult? { if case .job(let result) = end { result } else { nil } }

    /// Removes the end from the list of unacknowledged ones, so that it is not delivered again.
    ///
    /// Retries for a few seconds while Redis cannot be reached. After an error you may call this again, or do nothing:
    /// then the end is delivered again.
    public func acknowledge() async throws(HaulError) {
        if let text { try await consumer.remove(text) }
        consumer.acknowledged(identity)
        // The reply of an end that was read from the job's hash may have been taken since.
        for text in consumer.takeLaterTexts(of: identity) { try await consumer.remove(text) }
    }

    init(_ end: End, id: String, at: Int64, _ identity: Identity, _ text: [UInt8]?, of consumer: ReplyConsumer) {
        (self.end, self.id, self.at, self.identity) = (end, id, at, identity)
        (self.text, self.consumer) = (text, consumer)
    }

    /// nil if the text is not an end.
    init?(_ text: [UInt8], of consumer: ReplyConsumer) {
        guard let event = Event(text) else { return nil }
        let end: End
        switch event.kind {
        case .batchEnded: end = .batch(BatchStatus(event))
        case .rejected: end = .rejected(reason: event.reason ?? "", meta: event.meta)
        case .duplicate where event["state"]?.string == "removed":
            end = .job(JobResult(removed: event.id, meta: event.meta))
        default:
            guard let result = JobResult(event) else { return nil }
            end = .job(result)
        }
        let identity = event.position.map { Identity.event(id: event.id, $0) } ?? .text(text)
        self.init(end, id: event.batch ?? event.id, at: event.at, identity, text, of: consumer)
    }
}

/// Which ends one iteration has delivered, and which of them are acknowledged.
final class ReplyConsumer: Sendable {
    /// How many acknowledged ends are remembered. A duplicate of an older one is delivered again.
    private static let maxAcknowledged = 10_000

    private struct State {
        /// Delivered, and not acknowledged. With the replies that were taken later.
        var delivered: [Reply.Identity: [[UInt8]]] = [:]
        var acknowledged: Set<Reply.Identity> = []
        /// The acknowledged ends in their order. Those before the index `oldest` are no longer remembered.
        var order: [Reply.Identity] = []
        var oldest = 0
    }

    let queue: HaulQueue
    /// The name of the list.
    let name: String
    private let state = Mutex(State())

    init(_ queue: HaulQueue, name: String) { (self.queue, self.name) = (queue, name) }

    func remove(_ text: [UInt8]) async throws(HaulError) {
        try await retryingWhileUnreachable(until: .now + .seconds(5)) { () throws(HaulError) in
            try await mappingErrors { () throws(RedisError) in try await queue.queue.acknowledge(text, to: name) }
        }
    }

    func acknowledged(_ identity: Reply.Identity) {
        state.withLock { state in
            guard state.acknowledged.insert(identity).inserted else { return }
            state.order.append(identity)
            guard state.acknowledged.count > Self.maxAcknowledged else { return }
            state.acknowledged.remove(state.order[state.oldest])
            state.oldest += 1
            // Removes many at once, because each removal moves the rest of the array.
            guard state.oldest > Self.maxAcknowledged else { return }
            state.order.removeFirst(state.oldest)
            state.oldest = 0
        }
    }

    func isAcknowledged(_ identity: Reply.Identity) -> Bool {
        state.withLock { $0.acknowledged.contains(identity) }
    }

    /// Removes the reply of an end that was acknowledged after the reply was read.
    func drop(_ reply: Reply) async throws(HaulError) {
        if let text = reply.text, isAcknowledged(reply.identity) { try await remove(text) }
    }

    /// Whether the end is to be delivered: it was neither delivered nor acknowledged before.
    func deliver(_ reply: Reply) -> Bool {
        state.withLock { state in
            guard !state.acknowledged.contains(reply.identity) else { return false }
            guard let later = state.delivered[reply.identity] else {
                state.delivered[reply.identity] = []
                return true
            }
            if let text = reply.text, !later.contains(text) { state.delivered[reply.identity] = later + [text] }
            return false
        }
    }

    /// The replies of an end that were taken after it was delivered. It is not delivered any more.
    func takeLaterTexts(of identity: Reply.Identity) -> [[UInt8]] {
        state.withLock { $0.delivered.removeValue(forKey: identity) ?? [] }
    }
}
