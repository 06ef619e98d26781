import HaulBus
import HaulContract
import HaulRedis
import Synchronization

/// Hands events to all listeners. All listeners to a job, or to a whole queue, share one subscription.
actor EventHub {
    struct Topic: Hashable {
        let queue: String
        /// nil for all jobs of the queue.
        let id: String?
    }

    private struct Feed {
        let task: Task<Void, Never>
        let buffers: Listeners
    }

    private let queues: [String: Queue]
    private var feeds: [Topic: Feed] = [:]
    /// Each feed is a connection to Redis.
    private static let maxFeeds = 32
    /// One user takes at most half of the feeds, and operators keep a quarter of them.
    private let quota = Quota<Topic>(maxEach: maxFeeds / 2, maxViewers: maxFeeds * 3 / 4)

    init(_ queues: [Queue]) { self.queues = Dictionary(uniqueKeysWithValues: queues.map { ($0.name.text, $0) }) }

    /// Begins to listen. The caller must end it with `leave`.
    ///
    /// - Throws: `not_found` for an unknown queue; `busy` if there are too many feeds.
    func listen(to topic: Topic, for caller: Caller) throws(APIError) -> ListenerBuffer {
        guard let hold = quota.hold(topic, for: caller) else {
            throw APIError(429, .tooMany, "too many jobs are watched at once: close the page of another job")
        }
        let buffer = ListenerBuffer(hold)
        if let feed = feeds[topic] {
            feed.buffers.add(buffer)
            return buffer
        }
        guard let queue = queues[topic.queue] else { throw .notFound("the queue \(topic.queue)") }
        guard feeds.count < Self.maxFeeds else {
            throw APIError(503, .busy, "too many jobs are watched at once: try again in some seconds")
        }
        let listeners = Listeners()
        listeners.add(buffer)
        let subscription = queue.events(of: topic.id.map { [$0] })
        let task = Task {
            for await element in subscription {
                switch element {
                case .message(_, let payload): listeners.post(String(decoding: payload, as: UTF8.self))
                case .subscribed: listeners.open()
                case .interrupted: listeners.lose()
                }
            }
        }
        feeds[topic] = Feed(task: task, buffers: listeners)
        return buffer
    }

    func leave(_ topic: Topic, _ buffer: ListenerBuffer) {
        guard let feed = feeds[topic], feed.buffers.remove(buffer) else { return }
        feed.task.cancel()
        feeds[topic] = nil
    }
}

/// The buffers of one feed.
final class Listeners: Sendable {
    private let all = Mutex<(buffers: [ListenerBuffer], isOpen: Bool)>(([], false))

    func add(_ buffer: ListenerBuffer) {
        let isOpen = all.withLock {
            $0.buffers.append(buffer)
            return $0.isOpen
        }
        if isOpen { buffer.open() }
    }

    /// Removes a buffer. True if none is left.
    func remove(_ buffer: ListenerBuffer) -> Bool {
        all.withLock {
            $0.buffers.removeAll { $0 === buffer }
            return $0.buffers.isEmpty
        }
    }

    func post(_ event: String) { for buffer in all.withLock({ $0.buffers }) { buffer.post(event) } }

    /// The subscription is active. If it was so before, what has arrived was too much and was dropped.
    func open() {
        let buffers = all.withLock { state in
            state.isOpen = true
            return state.buffers
        }
        for buffer in buffers { buffer.open() }
    }

    /// The subscription is interrupted. It is tried again, and then `open` is called.
    func lose() { all.withLock { $0.isOpen = false } }
}

/// The events that one listener has not taken yet. When they are too many or too long, the older half is dropped.
final class ListenerBuffer: Sendable {
    enum Item: Equatable, Sendable {
        case event(String)
        /// The subscription has become active. All but the first time, events are missing before this.
        case opened
        /// Events are missing here, because the buffer was full.
        case dropped

        /// The length of an event.
        var length: Int { if case .event(let text) = self { text.utf8.count } else { 0 } }
    }

    struct Content {
        /// In the order in which they came.
        var items: [Item] = []
        /// The length of the events.
        var bytes = 0

        var events: [String] {
            items.compactMap { item -> String? in if case .event(let text) = item { text } else { nil } }
        }
    }

    private let content = Mutex(Content())
    private let hold: Quota<EventHub.Topic>.Hold?

    init(_ hold: Quota<EventHub.Topic>.Hold? = nil) { self.hold = hold }

    private static let maxItems = 2000
    private static let maxBytes = 4 << 20

    func post(_ event: String) {
        content.withLock { content in
            content.items.append(.event(event))
            content.bytes += event.utf8.count
            var (isFull, wasOpened) = (false, false)
            while content.items.count > Self.maxItems || content.bytes > Self.maxBytes {
                let dropped = Array(content.items.prefix((content.items.count + 1) / 2))
                content.bytes -= dropped.reduce(0) { $0 + $1.length }
                content.items.removeFirst(dropped.count)
                (isFull, wasOpened) = (true, wasOpened || dropped.contains(.opened))
            }
            let marks: [Item] = wasOpened ? [.opened, .dropped] : [.dropped]
            if isFull { content.items.insert(contentsOf: marks, at: 0) }
        }
    }

    func open() {
        content.withLock { content in
            guard content.items.suffix(2) != [.opened, .dropped] else { return }
            // Events may have been missed since it was opened before.
            content.items.append(content.items.last == .opened ? .dropped : .opened)
        }
    }

    /// Returns everything in the buffer, and empties it.
    func take() -> Content { content.withLock { exchange(&$0) } }

    private func exchange(_ value: inout Content) -> Content {
        defer { value = Content() }
        return value
    }
}
