import HaulExecutors
import Synchronization

/// A bounded buffer between the thread of all connections and one consumer of messages.
///
/// The connections' thread never waits for a consumer. If a slow consumer lets the buffer fill up, all buffered
/// elements are dropped and replaced by `.subscribed`. The consumer then catches up as after a lost connection.
final class SubscriptionBuffer: Sendable {
    /// The maximum number of buffered elements.
    static let maxElements = 50_000
    /// The number of buffered bytes, of channel names and payloads, above which the next element empties the buffer.
    static let maxBytes = 16 << 20

    /// A call of `next` that waits for an element. The number distinguishes it from earlier calls.
    private struct Waiter {
        let number: Int
        let continuation: CheckedContinuation<Subscription.Element?, Never>
    }

    private struct State {
        var elements = Deque<Subscription.Element>()
        var bytes = 0
        var waiter: Waiter?
        /// The number of calls of `next` so far, which is the number of the latest call.
        var callCount = 0
        /// Whether the latest call was cancelled, or its deadline passed, before it had stored its waiter.
        var isCancelled = false
        var isFinished = false

        mutating func takeElement() -> Subscription.Element? {
            guard let element = elements.popFirst() else { return nil }
            bytes -= element.size
            return element
        }
    }

    private let state = Mutex(State())

    /// The number of buffered elements.
    var count: Int { state.withLock { $0.elements.count } }

    /// Hands an element to the waiting consumer, or buffers the element. Callable from any thread.
    func put(_ element: Subscription.Element) {
        let waiter = state.withLock { state -> Waiter? in
            if state.isFinished { return nil }
            if let waiter = state.waiter.take() { return waiter }
            if state.elements.count >= Self.maxElements || state.bytes > Self.maxBytes {
                (state.elements, state.bytes) = (Deque(), 0)
                state.elements.append(.subscribed)
            }
            state.elements.append(element)
            state.bytes += element.size
            return nil
        }
        waiter?.continuation.resume(returning: element)
    }

    /// Accepts no more elements. `next` still returns the buffered elements, and then nil.
    func finish() {
        let waiter = state.withLock { state in
            state.isFinished = true
            return state.waiter.take()
        }
        waiter?.continuation.resume(returning: nil)
    }

    var isFinished: Bool { state.withLock { $0.isFinished && $0.elements.isEmpty } }

    /// The next element. nil at `deadline`, after the last element of a finished buffer, and once the task is
    /// cancelled. Only one call may wait at a time.
    func next(until deadline: ContinuousClock.Instant? = nil) async -> Subscription.Element? {
        let (number, ready) = state.withLock { state in
            state.callCount += 1
            state.isCancelled = false
            // What is there is returned even if the deadline has passed.
            return (state.callCount, deadline == nil ? nil : state.takeElement())
        }
        if let ready { return ready }
        let timer = deadline.map { deadline in
            Task {
                try? await Task.sleep(until: deadline, clock: .continuous)
                self.end(wait: number)
            }
        }
        defer { timer?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (element, hasResult) = state.withLock { state -> (Subscription.Element?, Bool) in
                    if state.isCancelled { return (nil, true) }
                    if let element = state.takeElement() { return (element, true) }
                    if state.isFinished { return (nil, true) }
                    state.waiter = Waiter(number: number, continuation: continuation)
                    return (nil, false)
                }
                if hasResult { continuation.resume(returning: element) }
            }
        } onCancel: {
            end(wait: number)
        }
    }

    private func end(wait number: Int) {
        let waiter = state.withLock { state -> Waiter? in
            guard let waiter = state.waiter, waiter.number == number else {
                // The call may not have stored its waiter yet. If it has returned, the next call resets `isCancelled`.
                if state.callCount == number { state.isCancelled = true }
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
