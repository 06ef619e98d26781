/// The messages that are published to some channels, or to channels that match some patterns.
///
/// The sequence ends when the consuming task is cancelled or the subscriber is closed. Redis does not store messages,
/// so those that are published while there is no connection are lost. At each `.subscribed` the consumer must therefore
/// read the current state from the hashes of the jobs.
package struct Subscription: AsyncSequence, Sendable {
    package enum Element: Sendable {
        /// Redis has confirmed all channels and patterns. This comes at the start, after each reconnect, and instead of
        /// messages that were dropped because the consumer was too slow.
        case subscribed
        case message(channel: String, payload: [UInt8])
        /// The connection failed. The subscriber reconnects by itself.
        case interrupted(RedisError)
    }

    private let subscriber: Subscriber
    private let topics: Set<Subscriber.Topic>

    /// Subscribes over its own connection. `name` is the name of the client in CLIENT LIST.
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
        private let buffer = SubscriptionBuffer()

        fileprivate init(_ subscriber: Subscriber, _ topics: Set<Subscriber.Topic>) {
            self.subscriber = subscriber
            Task { [buffer] in await subscriber.add(buffer, to: topics) }
        }

        deinit {
            // `remove` may run before `add` does. Then `add` must do nothing, as it does with a finished buffer.
            buffer.finish()
            Task { [subscriber, buffer] in await subscriber.remove(buffer) }
        }

        /// The number of buffered elements.
        package var bufferedCount: Int { buffer.count }

        /// The next element. nil at the end, and once the task is cancelled.
        package func next() async -> Element? { await buffer.next() }

        /// The next element. nil at the end, at `deadline`, and once the task is cancelled.
        package func next(until deadline: ContinuousClock.Instant) async -> Element? {
            await buffer.next(until: deadline)
        }

        /// Whether the subscriber was closed and all buffered elements have been consumed.
        package var isFinished: Bool { buffer.isFinished }
    }
}
