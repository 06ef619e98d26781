import Synchronization

/// Bounds how many resources each caller holds at once, and how many all viewers hold together, so that viewers leave
/// some for operators. If a caller holds the same resource several times, it counts once.
final class Quota<Resource: Hashable & Sendable>: Sendable {
    /// Holds a resource for as long as this object lives.
    final class Hold: Sendable {
        private let release: @Sendable () -> Void
        fileprivate init(_ release: @escaping @Sendable () -> Void) { self.release = release }
        deinit { release() }
    }

    private struct Holder: Hashable {
        let account: Caller.Account
        let isViewer: Bool
    }

    private struct State {
        /// How often each account holds each resource. A user and a token of one name may have two roles.
        var accounts: [Holder: [Resource: Int]] = [:]
        var viewers = 0
    }

    private let maxEach: Int
    private let maxViewers: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - maxEach: For one account.
    ///   - maxViewers: For all viewers together.
    init(maxEach: Int, maxViewers: Int = .max) { (self.maxEach, self.maxViewers) = (maxEach, maxViewers) }

    /// Holds a resource for as long as the result lives; nil if that would exceed a limit.
    func hold(_ resource: Resource, for caller: Caller) -> Hold? {
        let holder = Holder(account: caller.account, isViewer: caller.role == .viewer)
        let isHeld = state.withLock { state in
            let held = state.accounts[holder] ?? [:]
            if held[resource] == nil {
                guard held.count < maxEach, !holder.isViewer || state.viewers < maxViewers else { return false }
                if holder.isViewer { state.viewers += 1 }
            }
            state.accounts[holder, default: [:]][resource, default: 0] += 1
            return true
        }
        guard isHeld else { return nil }
        return Hold { [weak self] in self?.release(resource, of: holder) }
    }

    private func release(_ resource: Resource, of holder: Holder) {
        state.withLock { state in
            guard let count = state.accounts[holder]?[resource] else { return }
            state.accounts[holder]?[resource] = count > 1 ? count - 1 : nil
            if count == 1, holder.isViewer { state.viewers -= 1 }
            if state.accounts[holder]?.isEmpty == true { state.accounts[holder] = nil }
        }
    }
}

/// Draws consecutive numbers.
final class Counter: Sendable {
    private let last = Atomic<UInt64>(0)
    func next() -> UInt64 { last.add(1, ordering: .relaxed).newValue }
}
