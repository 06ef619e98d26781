import HaulExecutors
import Synchronization

/// What one consumer of messages has not taken yet, of bounded size.
///
/// The network's thread never waits for a consumer. Where one is so slow that the mailbox is full, all that waits in it goes, and
/// `.subscribed` takes its place: the consumer catches up as after a lost connection.
final class Mailbox: Sendable {
    /// At most so many elements wait.
    static let mostElements = 50_000
    /// And at most so many bytes of their payloads.
    static let mostBytes = 16 << 20

    /// One consumer's wait. The number tells it from the waits before it.
    private struct Waiter {
        let number: Int
        let continuation: CheckedContinuation<Subscription.Element?, Never>
    }

    private struct State {
        var elements = Deque<Subscription.Element>()
        var bytes = 0
        var waiter: Waiter?
        /// How many waits there were, with the one under way.
        var waits = 0
        /// The wait under way was over before it began.
        var isOver = false
        var isFinished = false
    }

    private let state = Mutex(State())

    /// How many elements wait.
    var count: Int { state.withLock { $0.elements.count } }

    /// Hands an element to who waits, or keeps it.
    func put(_ element: Subscription.Element) {
        let waiter = state.withLock { state -> Waiter? in
            if state.isFinished { return nil }
            if let waiter = state.waiter.take() { return waiter }
            if state.elements.count >= Self.mostElements || state.bytes > Self.mostBytes {
                (state.elements, state.bytes) = (Deque(), 0)
                state.elements.append(.subscribed)
            }
            state.elements.append(element)
            state.bytes += element.size
            return nil
        }
        waiter?.continuation.resume(returning: element)
    }

    /// No element comes any more.
    func finish() {
        let waiter = state.withLock { state in
            state.isFinished = true
            return state.waiter.take()
        }
        waiter?.continuation.resume(returning: nil)
    }

    var isFinished: Bool { state.withLock { $0.isFinished && $0.elements.isEmpty } }

    /// The next element; nil at `deadline`, at the end, and once the task is cancelled.
    func next(until deadline: ContinuousClock.Instant? = nil) async -> Subscription.Element? {
        let number = state.withLock { state in
            state.waits += 1
            state.isOver = false
            return state.waits
        }
        let alarm = deadline.map { deadline in
            Task {
                try? await Task.sleep(until: deadline, clock: .continuous)
                self.end(wait: number)
            }
        }
        defer { alarm?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (element, isAnswered) = state.withLock { state -> (Subscription.Element?, Bool) in
                    if state.isOver { return (nil, true) }
                    if let element = state.elements.popFirst() {
                        state.bytes -= element.size
                        return (element, true)
                    }
                    if state.isFinished { return (nil, true) }
                    state.waiter = Waiter(number: number, continuation: continuation)
                    return (nil, false)
                }
                if isAnswered { continuation.resume(returning: element) }
            }
        } onCancel: {
            end(wait: number)
        }
    }

    private func end(wait number: Int) {
        let waiter = state.withLock { state -> Waiter? in
            guard let waiter = state.waiter, waiter.number == number else {
                // It may not have begun yet. If it is over, the next one begins without this mark.
                if state.waits == number { state.isOver = true }
                return nil
            }
            state.waiter = nil
            return waiter
        }
        waiter?.continuation.resume(returning: nil)
    }
}

extension Subscription.Element {
    fileprivate var size: Int {
        if case .message(let channel, let payload) = self { channel.utf8.count + payload.count } else { 0 }
    }
}
