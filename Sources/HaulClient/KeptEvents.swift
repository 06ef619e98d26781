import HaulBus
import HaulRedis

/// An event that the queue has kept, or the notice that some are missing.
public enum KeptUpdate: Sendable, Equatable {
    /// An event, and where it is.
    case event(Event, KeptEvents.Position)
    /// Events before the next one may be missing: the queue has dropped them, or Redis has lost them. Read the hashes of
    /// the jobs that your own records have as open.
    case gap(KeptEvents.Position)

    /// Where the update is. Keep it with your records to go on behind it later.
    public var position: KeptEvents.Position {
        switch self {
        case .event(_, let position), .gap(let position): position
        }
    }

    /// The event; nil for a gap.
    public var event: Event? { if case .event(let event, _) = self { event } else { nil } }
}

/// The events that the queue has kept, and those that follow: ``HaulQueue/keptEvents(from:following:)``.
public struct KeptEvents: AsyncSequence, Sendable {
    /// An event, or a gap.
    public typealias Element = KeptUpdate
    /// Its code is ``HaulError/Code-swift.struct/eventsNotKept``, ``HaulError/Code-swift.struct/refused``,
    /// ``HaulError/Code-swift.struct/cancelled``, ``HaulError/Code-swift.struct/closed``, or another one if Redis fails.
    public typealias Failure = HaulError

    /// Where to begin.
    public enum Start: Sendable, Equatable {
        /// With the oldest event that the queue has kept.
        case oldest
        /// With the events that are not older than this time, in unix milliseconds by Redis' clock.
        case time(Int64)
        /// Behind an update that was delivered before.
        case after(Position)
    }

    /// A place in the queue's stream of events. Its text can be stored.
    public struct Position: Sendable, Hashable, Codable, LosslessStringConvertible {
        /// Of each partition the last entry that was read, or the unix milliseconds from which on it is read.
        let places: [String]

        init(places: [String]) { self.places = places }

        /// nil if the text is not a position.
        public init?(_ description: String) {
            places = description.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            for place in places {
                let numbers = place.split(separator: "-", omittingEmptySubsequences: false)
                guard numbers.count <= 2, numbers.allSatisfy({ UInt64($0) != nil && $0.first != "+" }) else {
                    return nil
                }
            }
        }

        /// The position as a text.
        public var description: String { places.joined(separator: ",") }

        /// Reads a text.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            guard let position = Position(try container.decode(String.self)) else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a position of events")
            }
            self = position
        }

        /// Writes a text.
        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(description)
        }
    }

    let queue: HaulQueue
    let start: Start
    let isFollowing: Bool

    /// Begins at the start. Does not connect yet.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// The iterator of one consumer.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        /// For how long one command waits for an event. With partitions, all of them are read before one is waited for.
        private static let (block, blockOfPartitions) = (Duration.seconds(5), Duration.milliseconds(250))

        private let events: KeptEvents
        /// Of each partition a connection of its own, because a command that blocks would delay all later commands.
        private let connections: [OpenConnections.Held]
        private var followers: [EventLogFollower]
        private var position: Position
        /// What was read and not delivered yet, the next one last.
        private var found: [KeptUpdate] = []
        private var hasDelivered = false
        private var failures = 0

        fileprivate init(_ events: KeptEvents) {
            self.events = events
            let parts = events.queue.queue.parts
            connections = parts.map { [queue = events.queue] _ in
                queue.connections.open { queue.client(for: "kept-events") }
            }
            let time: Int64
            switch events.start {
            case .oldest: time = 0
            case .time(let start): time = Swift.max(0, start)
            case .after(let given) where given.places.count != parts.count:
                // It is of a queue with another number of partitions.
                time = 0
                found = [.gap(Position(places: parts.map { _ in "0" }))]
            case .after(let given):
                position = given
                followers = zip(parts, given.places).map { EventLogFollower($0, after: $1, isStored: true) }
                return
            }
            position = Position(places: parts.map { _ in String(time) })
            followers = parts.map { EventLogFollower($0, after: String(time)) }
        }

        /// Waits for the next update. nil at the end, if the sequence does not follow.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(HaulError) -> KeptUpdate? {
            while true {
                if let update = found.popLast() {
                    hasDelivered = true
                    return update
                }
                if Task.isCancelled { throw .cancelled }
                var isKeeping = true
                do throws(RedisError) {
                    isKeeping = try await read()
                    failures = 0
                } catch {
                    guard error.isTransient, error != .clientClosed else {
                        throw error.code == .cancelled ? .cancelled : HaulError(error)
                    }
                    failures += 1
                    try? await Task.sleep(for: .milliseconds(Swift.min(1000, 25 << Swift.min(failures, 6))))
                    continue
                }
                guard found.isEmpty else { continue }
                if !isKeeping, events.isFollowing || !hasDelivered {
                    throw HaulError(
                        .eventsNotKept,
                        "the queue \(events.queue.name) keeps no events: an operator sets event_stream to their number")
                }
                if !events.isFollowing { return nil }
            }
        }

        /// Waits for the next update. nil at the end, if the sequence does not follow.
        public mutating func next() async throws(HaulError) -> KeptUpdate? { try await next(isolation: nil) }

        /// Reads all partitions, and waits if none has anything. Returns whether the queue keeps events.
        private mutating func read() async throws(RedisError) -> Bool {
            var waits = [Duration.zero]
            if events.isFollowing {
                waits = connections.count == 1 ? [Self.block] : [.zero, Self.blockOfPartitions]
            }
            var isKeeping = true
            for wait in waits where found.isEmpty {
                let results = try await pages(within: wait)
                var updates: [KeptUpdate] = []
                var places = position.places
                for (number, (follower, page)) in results.enumerated() {
                    if page.hasGap { updates.append(.gap(Position(places: places))) }
                    for logged in page.events {
                        places[number] = logged.entry
                        // A later version may have events that this one cannot read.
                        guard let event = Event(logged.text.utf8) else { continue }
                        updates.append(.event(event, Position(places: places)))
                    }
                    places[number] = follower.position
                    followers[number] = follower
                    isKeeping = isKeeping && page.isKeeping
                }
                position = Position(places: places)
                found = updates.reversed()
            }
            return isKeeping
        }

        private func pages(
            within wait: Duration
        ) async throws(RedisError) -> [(EventLogFollower, EventLogFollower.Page)] {
            let (followers, connections) = (followers, connections)
            @Sendable func page(_ number: Int) async throws(RedisError) -> (EventLogFollower, EventLogFollower.Page) {
                var follower = followers[number]
                let page = try await follower.next(within: wait, on: connections[number].redis)
                return (follower, page)
            }
            guard followers.count > 1 else { return [try await page(0)] }
            return try await events.queue.queue.each { queue throws(RedisError) in
                try await page(queue.name.partition ?? 0)
            }
        }
    }
}

extension HaulQueue {
    /// The events that the queue has kept, oldest first, and then those that follow. A queue keeps its events, but
    /// `progress`, while it has the setting ``QueueSettings/eventStream``: docs/guides/durable-events.md.
    ///
    ///     let start = try await store.lastPosition.map(KeptEvents.Start.after) ?? .oldest
    ///     for try await update in queue.keptEvents(from: start) {
    ///         if let event = update.event { try await store.apply(event) } else { try await store.readOpenJobs() }
    ///         try await store.save(update.position)
    ///     }
    ///
    /// The events of each job come in their order. An event may come again if your program ends before it has stored the
    /// position, so recognize it by ``Event/position``. The sequence goes on while Redis cannot be reached.
    ///
    /// - Parameters:
    ///   - start: Where to begin.
    ///   - following: Whether the sequence waits for further events; otherwise it ends behind the newest one.
    public func keptEvents(from start: KeptEvents.Start = .oldest, following: Bool = true) -> KeptEvents {
        KeptEvents(queue: self, start: start, isFollowing: following)
    }
}
