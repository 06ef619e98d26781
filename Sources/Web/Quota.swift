import Synchronization

/// Bounds how many things each caller holds at once, and how many all viewers hold together, so that no viewer can take
/// what operators need. A caller who holds the same thing several times holds it once.
final class Quota<Thing: Hashable & Sendable>: Sendable {
    /// Holds a thing until it is released.
    final class Hold: Sendable {
        private let release: @Sendable () -> Void
        fileprivate init(_ release: @escaping @Sendable () -> Void) { self.release = release }
        deinit { release() }
    }

    private struct State {
        /// How often each account holds each thing.
        var accounts: [String: [Thing: Int]] = [:]
        var viewers = 0
    }

    private let maxEach: Int
    private let maxViewers: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - maxEach: For one account.
    ///   - maxViewers: For all viewers together.
    init(maxEach: Int, maxViewers: Int = .max) { (self.maxEach, self.maxViewers) = (maxEach, maxViewers) }

    /// Holds a thing for as long as the result lives; nil if this is one too many.
    func hold(_ thing: Thing, for caller: Caller) -> Hold? {
        let (account, isViewer) = (caller.account, caller.role == .viewer)
        let isHeld = state.withLock { state in
            let held = state.accounts[account] ?? [:]
            if held[thing] == nil {
                guard held.count < maxEach, !isViewer || state.viewers < maxViewers else { return false }
                if isViewer { state.viewers += 1 }
            }
            state.accounts[account, default: [:]][thing, default: 0] += 1
            return true
        }
        guard isHeld else { return nil }
        return Hold { [weak self] in self?.release(thing, of: account, isViewer) }
    }

    private func release(_ thing: Thing, of account: String, _ isViewer: Bool) {
        state.withLock { state in
            guard let count = state.accounts[account]?[thing] else { return }
            state.accounts[account]?[thing] = count > 1 ? count - 1 : nil
            if count == 1, isViewer { state.viewers -= 1 }
            if state.accounts[account]?.isEmpty == true { state.accounts[account] = nil }
        }
    }
}

/// Numbers things.
final class Counter: Sendable {
    private let last = Atomic<UInt64>(0)
    func next() -> UInt64 { last.add(1, ordering: .relaxed).newValue }
}
