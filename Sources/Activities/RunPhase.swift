/// The phase of a run between its claim and its settle. It holds no task; it says what to do with the activity's task.
package enum RunPhase: Equatable {
    /// Its activity has not begun.
    case claimed
    case working
    /// Its activity is cancelled, or will be as soon as it begins.
    case stopping(StopReason)
    /// Its activity has ended. There are no more checkpoints, and the run has only to be settled.
    case ended(StopReason?)

    /// Why a run ends before its activity is done.
    package enum StopReason: Sendable, Equatable {
        case paused, cancelled, shutdown, deadline
        /// The run has taken as long as the operator allows.
        case timeLimit
        /// Another worker has the lease: this run settles nothing and touches no file.
        case fenced
    }

    /// What to do with the activity.
    enum Action: Equatable {
        case none, cancel
    }

    package var stopReason: StopReason? {
        switch self {
        case .claimed, .working: nil
        case .stopping(let reason): reason
        case .ended(let reason): reason
        }
    }

    var hasEnded: Bool { if case .ended = self { true } else { false } }

    /// The activity begins. If the run was stopped before, the activity is cancelled at once.
    mutating func begin() -> Action {
        switch self {
        case .claimed:
            self = .working
            return .none
        case .stopping: return .cancel
        case .working, .ended: return .none
        }
    }

    /// Stops the run. The first reason counts, but `fenced` overrules all others. `isNew`: this reason counts now.
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

    /// The activity has ended, by itself or because it was cancelled.
    mutating func end() { self = .ended(stopReason) }
}
