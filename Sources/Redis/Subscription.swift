/// Messages of channels and patterns.
///
/// Ends when the consuming task is cancelled. Messages that were sent while there was no connection are lost, as pub/sub
/// goes; `.subscribed` is the moment to catch up from the hashes.
package struct Subscription: AsyncSequence, Sendable {
    package enum Element: Sendable {
        /// All channels are subscribed to: at first, after every reconnect, and where the consumer was so slow that messages
        /// had to go.
        case subscribed
        case message(channel: String, payload: [UInt8])
        /// The connection failed; another try follows by itself.
        case interrupted(RedisError)
    }

    private let subscriber: Subscriber
    private let topics: Set<Subscriber.Topic>

    /// Over a connection of its own, which is built anew after every failure.
    package init(_ url: RedisURL, name: String, channels: [String] = [], patterns: [String] = []) {
        self.init(Subscriber(url, name: name), channels: channels, patterns: patterns)
    }

    /// Over the connection of `subscriber`, which others share.
    package init(_ subscriber: Subscriber, channels: [String] = [], patterns: [String] = []) {
        self.subscriber = subscriber
        topics = Set(channels.map { .channel($0) } + patterns.map { .pattern($0) })
    }

    package func makeAsyncIterator() -> Iterator { Iterator(subscriber, topics) }

    /// One consumer. It is subscribed as long as this object lives.
    package final class Iterator: AsyncIteratorProtocol, Sendable {
        private let subscriber: Subscriber
        private let mailbox = Mailbox()

        fileprivate init(_ subscriber: Subscriber, _ topics: Set<Subscriber.Topic>) {
            self.subscriber = subscriber
            Task { [mailbox] in await subscriber.add(mailbox, to: topics) }
        }

        deinit {
            // It may come before the addition: a finished mailbox is not added.
            mailbox.finish()
            Task { [subscriber, mailbox] in await subscriber.remove(mailbox) }
        }

        /// How many elements wait to be taken.
        package var waiting: Int { mailbox.count }

        /// nil at the end, and once the task is cancelled.
        package func next() async -> Element? { await mailbox.next() }

        /// nil at `deadline` as well.
        package func next(until deadline: ContinuousClock.Instant) async -> Element? {
            await mailbox.next(until: deadline)
        }

        /// The subscriber was closed, and all that came before has been taken.
        package var isFinished: Bool { mailbox.isFinished }
    }
}
