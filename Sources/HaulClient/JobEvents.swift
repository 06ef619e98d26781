import HaulBus
import HaulRedis

/// The events of one job until its end: ``JobHandle/events``.
public struct JobEvents: AsyncSequence, Sendable {
    /// An event, or the job's status.
    public typealias Element = JobUpdate
    /// Its code is ``HaulError/Code-swift.struct/refused``, ``HaulError/Code-swift.struct/cancelled``,
    /// ``HaulError/Code-swift.struct/closed``, or another one if Redis fails.
    public typealias Failure = HaulError

    let handle: JobHandle

    /// Subscribes to the job's events.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(handle) }

    /// The iterator of one consumer.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        private let handle: JobHandle
        private let messages: Subscription.Iterator
        private var position = EventPosition.none
        /// Whether there was a record of the job, or an event.
        private var isKnown = false
        private var hasEnded = false
        /// The event of a rejection may have been published before the subscription.
        private var mayHaveMissedRejection = false

        fileprivate init(_ handle: JobHandle) {
            self.handle = handle
            messages = handle.queue.subscription(to: [handle.id]).makeAsyncIterator()
        }

        /// Waits for the next update. nil after the job's end.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(HaulError) -> JobUpdate? {
            while !hasEnded {
                if mayHaveMissedRejection {
                    mayHaveMissedRejection = false
                    guard let event = try await rejection() else { continue }
                    hasEnded = true
                    return .event(event)
                }
                guard let element = await messages.next(until: .now + ResultWait.pollInterval) else {
                    if messages.isFinished { throw .closed }
                    if Task.isCancelled { throw .cancelled }
                    // A node that is cut off from its cluster forwards no message, and the connection to it stays open.
                    if let update = try await catchUp() { return update }
                    continue
                }
                switch element {
                case .interrupted(let error):
                    let error = HaulError(error)
                    if error.code == .refused { throw error }
                case .subscribed:
                    mayHaveMissedRejection = handle.pushedAt != nil
                    if let update = try await catchUp() { return update }
                case .message(_, let payload):
                    guard let event = Event(payload) else { continue }
                    if let update = try await take(event) { return update }
                }
            }
            return nil
        }

        public mutating func next() async throws(HaulError) -> JobUpdate? { try await next(isolation: nil) }

        private mutating func take(_ event: Event) async throws(HaulError) -> JobUpdate? {
            // An event without a position is not part of the job's order.
            guard let newPosition = event.position else {
                // This push starts nothing, as ``JobHandle/result(timeout:)`` says with an error.
                if event.kind == .rejected, handle.pushedAt != nil { hasEnded = try await rejection(event) != nil }
                return .event(event)
            }
            isKnown = true
            guard newPosition > position else { return nil }
            guard newPosition.follows(position) || position == .none else {
                // Events before this one were missed. The hash is at least as new as this event.
                if let update = try await catchUp() { return update }
                return try await take(next: event, at: newPosition)
            }
            return try await take(next: event, at: newPosition)
        }

        private mutating func take(next event: Event, at newPosition: EventPosition) async throws(HaulError)
            -> JobUpdate
        {
            position = newPosition
            // The event may announce the end of an earlier push, while this push still waits. The hash decides.
            if event.finalState != nil || event.kind == .duplicate {
                switch try await readEndState() {
                case .ended, .removed: hasEnded = true
                case .open: break
                }
            }
            return .event(event)
        }

        private func rejection(_ event: Event? = nil) async throws(HaulError) -> Event? {
            try await retryingWhileUnreachable { () throws(HaulError) in try await handle.rejection(event) }
        }

        private func readEndState() async throws(HaulError) -> JobHandle.EndState {
            try await retryingWhileUnreachable { () throws(HaulError) in
                try await handle.readEndState(wasKnown: isKnown)
            }
        }

        /// Reads the job's hash. nil if the hash is not newer than the last update.
        private mutating func catchUp() async throws(HaulError) -> JobUpdate? {
            let status: JobStatus
            let state = try await readEndState()
            if case .open(nil) = state {} else { isKnown = true }
            switch state {
            case .removed:
                hasEnded = true
                return nil
            case .open(nil): return nil
            case .open(let known?) where known.state.isFinal && handle.pushedAt != nil:
                // This is the end of an earlier push.
                position = Swift.max(position, known.position)
                return nil
            case .open(let known?): status = known
            case .ended(let known):
                status = known
                hasEnded = true
            }
            guard status.position > position || hasEnded else { return nil }
            position = Swift.max(position, status.position)
            return .status(status)
        }
    }
}
