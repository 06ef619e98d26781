/// The messages of channels and patterns.
///
/// The sequence ends when the consuming task is cancelled or the subscriber is closed. Messages that were published
/// while there was no connection are lost: Redis does not store them. At each `.subscribed` the consumer must catch up
/// from the hashes.
package struct Subscription: AsyncSequence, Sendable {
    package enum Element: Sendable {
        /// All channels are subscribed to. Comes at the start, after each reconnect, and instead of messages that were
        /// dropped because the consumer was too slow.
        case subscribed
        case message(channel: String, payload: [UInt8])
        /// The connection failed. The subscriber reconnects by itself.
        case interrupted(RedisError)
    }

    private let subscriber: Subscriber
    private let topics: Set<Subscriber.Topic>

    /// Subscribes over a connection of its own. `name` is the client name in CLIENT LIST.
    package init(_ url: RedisURL, name: String, channels: [String] = [], patterns: [String] = []) {
        self.init(Subscriber(url, name: name), channels: channels, patterns: patterns)
    }

    /// Subscribes over the connection of `subscriber`, which other subscriptions may share.
    package init(_ subscriber: Subscriber, channels: [String] = [], patterns: [String] = []) {
        self.subscriber = subscriber
        topics = Set(channels.map { .channel($0) } + patterns.map { .pattern($0) })
    }

    package func makeAsyncIterator() -> Iterator { Iterator(subscriber, topics) }

    /// One consumer. Its subscription lasts as long as this object lives.
    package final class Iterator: AsyncIteratorProtocol, Sendable {
        private let subscriber: Subscriber
        private let mailbox = Mailbox()

        fileprivate init(_ subscriber: Subscriber, _ topics: Set<Subscriber.Topic>) {
            self.subscriber = subscriber
            Task { [mailbox] in await subscriber.add(mailbox, to: topics) }
        }

        deinit {
            // This removal may run before `add`. Finish the mailbox first: `add` ignores a finished mailbox.
            mailbox.finish()
            Task { [subscriber, mailbox] in await subscriber.remove(mailbox) }
        }

        /// The number of buffered elements.
        package var waiting: Int { mailbox.count }

        /// The next element. nil at the end, and once the task is cancelled.
        package func next() async -> Element? { await mailbox.next() }

        /// The next element. nil at the end, at `deadline`, and once the task is cancelled.
        package func next(until deadline: ContinuousClock.Instant) async -> Element? {
            await mailbox.next(until: deadline)
        }

        /// Whether the subscriber was closed and all buffered elements have been consumed.
        package var isFinished: Bool { mailbox.isFinished }
    }
}
