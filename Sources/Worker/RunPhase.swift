/// Where a run is between its claim and its settling: a value without tasks, which says what is to be done.
enum RunPhase: Equatable {
    /// Its activity has not begun.
    case claimed
    case working
    /// Its activity is to end before it is done.
    case stopping(StopReason)
    /// Its activity has ended: there are no more checkpoints, and what is left is to settle it.
    case ended(StopReason?)

    /// Why a run ends before its activity does.
    enum StopReason: Sendable, Equatable {
        case paused, cancelled, shutdown, deadline
        /// Another worker has the lease: nothing is settled, nothing is touched.
        case fenced
    }

    /// What is to be done with the activity.
    enum Action: Equatable {
        case none, cancel
    }

    var stopReason: StopReason? {
        switch self {
        case .claimed, .working: nil
        case .stopping(let reason): reason
        case .ended(let reason): reason
        }
    }

    var hasEnded: Bool { if case .ended = self { true } else { false } }

    /// The activity begins. A run that was told to stop before is cancelled at once.
    mutating func begin() -> Action {
        switch self {
        case .claimed:
            self = .working
            return .none
        case .stopping: return .cancel
        case .working, .ended: return .none
        }
    }

    /// The run is told to stop. The first reason counts, but `fenced` overrules all others. `isNew`: this reason counts from now on.
    mutating func stop(_ reason: StopReason) -> (isNew: Bool, action: Action) {
        let known = stopReason
        guard known == nil || reason == .fenced && known != .fenced else { return (false, .none) }
        if hasEnded {
            self = .ended(reason)
            return (true, .none)
        }
        self = .stopping(reason)
        return (true, .cancel)
    }

    /// The activity has ended, by itself or because it was told to.
    mutating func end() { self = .ended(stopReason) }
}
