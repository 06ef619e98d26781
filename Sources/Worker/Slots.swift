import Synchronization

/// Counts the jobs that run at once. Callers can wait for a free slot.
final class Slots: Sendable {
    private struct State {
        var taken = 0
        /// Those of the taken slots that are released when their jobs are settled.
        var ending = 0
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
        var nextWaiter = 0
        /// Set while the worker cannot work (a full disk, say): no slot counts as free.
        var isSuspended = false
        /// Set when the slots are suspended, until the worker knows that the shortage has ended.
        var hasShortage = false
        var suspendCount = 0
        var limit: Int?
        /// The worker shuts down: no slot is taken any more.
        var isClosed = false

        var isFree: Bool { !isClosed && !isSuspended && taken < limit ?? .max }
    }

    private let state: Mutex<State>

    init(limit: Int?) { state = Mutex(State(limit: limit)) }

    /// nil: unlimited.
    var limit: Int? { state.withLock { $0.limit } }

    /// Jobs that run beyond a lower limit keep their slots.
    func setLimit(_ limit: Int?) { change { $0.limit = limit } }

    var taken: Int { state.withLock { $0.taken } }

    var free: Int { state.withLock { $0.isFree ? ($0.limit ?? .max) - $0.taken : 0 } }

    /// Takes a free slot; false if there is none.
    func take() -> Bool {
        state.withLock { state in
            guard state.isFree else { return false }
            state.taken += 1
            return true
        }
    }

    /// Whether a taken slot may take a next job. If not, the caller must release it. No more slots end than a lower limit
    /// requires.
    func mayGoOn() -> Bool {
        state.withLock { state in
            if !state.isClosed, !state.isSuspended, state.taken - state.ending <= state.limit ?? .max { return true }
            state.ending += 1
            return false
        }
    }

    /// Releases a slot. `isEnding`: `mayGoOn` has said that it may not go on.
    func release(isEnding: Bool) {
        change {
            $0.taken -= 1
            if isEnding { $0.ending -= 1 }
        }
    }

    /// Suspends the slots: no slot is free then, and running jobs keep theirs.
    ///
    /// - Returns: Whether a shortage begins with this call; nil if the slots are suspended already.
    func suspend() -> Bool? {
        state.withLock { state in
            guard !state.isSuspended else { return nil }
            defer { (state.isSuspended, state.hasShortage) = (true, true) }
            state.suspendCount += 1
            return !state.hasShortage
        }
    }

    /// Ends the suspension. The shortage lasts until `endShortage` with the returned number.
    func resume() -> Int {
        change { $0.isSuspended = false }
        return state.withLock { $0.suspendCount }
    }

    /// Returns false if the slots have been suspended again since `resume` returned the number.
    func endShortage(_ number: Int) -> Bool {
        state.withLock { state in
            guard state.hasShortage, state.suspendCount == number else { return false }
            state.hasShortage = false
            return true
        }
    }

    /// No slot can be taken from now on, so that `taken` only falls.
    func close() { state.withLock { $0.isClosed = true } }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Whether the slots are suspended, or were so shortly before and may be again.
    var hasShortage: Bool { state.withLock { $0.hasShortage } }

    /// Returns when a slot is free, or when the task is cancelled. Another caller may take the slot first.
    func waitUntilFree() async {
        let waiter = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let proceed = state.withLock { state in
                    if state.isFree || Task.isCancelled { return true }
                    state.waiting[waiter] = continuation
                    return false
                }
                if proceed { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: waiter) }?.resume()
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let woken = state.withLock { state in
            body(&state)
            guard state.isFree else { return [CheckedContinuation<Void, Never>]() }
            defer { state.waiting.removeAll() }
            return Array(state.waiting.values)
        }
        for continuation in woken { continuation.resume() }
    }
}
