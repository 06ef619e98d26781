import HaulContract
import HaulExecutors
import Synchronization

/// How many connections a worker has to each host, over all of its downloads.
///
/// A host that asks to be left alone, or refuses, gets as many as it has borne, then one more after ten seconds. If it refuses
/// that one, too, the next try is four times as far away.
package final class HostLimits: Sendable {
    private struct Host {
        var active = 0
        /// How many it was last known to bear, and when.
        var limit: Double
        var limited: UInt64
        /// The time for one more: nanoseconds.
        var recovery = HostLimits.recovery
        /// When it last refused; 0 before.
        var refused: UInt64 = 0
        /// No extra connections before this.
        var closedUntil: UInt64 = 0
        var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    }

    private struct State {
        var hosts: [String: Host] = [:]
        var lastID: UInt64 = 0
        var backoffs: Int64 = 0
        /// Connections to a host at once.
        var most: Int
    }

    /// What an operator may want to know of all hosts.
    package struct Figures: Sendable {
        /// Connections that there are.
        package var active = 0
        /// Downloads that wait for their first one.
        package var waiting = 0
        /// How often a host refused; refusals of questions that were asked together are one.
        package var backoffs: Int64 = 0
        /// Hosts that are given fewer connections than they might have.
        package var limits: [(host: String, limit: Double)] = []
    }

    private static let recovery = 10e9
    private static let longestRecovery = 640e9
    /// Refusals of questions that were asked together are one: nanoseconds.
    private static let together: UInt64 = 2_000_000_000
    private let state: Mutex<State>

    /// `most` connections to a host at once.
    package init(most: Int) { state = Mutex(State(most: max(1, most))) }

    /// From now on; connections that there are stay.
    package func setMost(_ most: Int) {
        state.withLock { state in
            let before = Double(state.most)
            state.most = max(1, most)
            // Whoever bore all that it might is taken to bear all that it may.
            for name in state.hosts.keys where state.hosts[name]?.limit == before {
                state.hosts[name]?.limit = Double(state.most)
            }
        }
    }

    /// Counts an extra connection, if the host bears one more and nobody waits for the first of theirs.
    package func tryEnter(_ host: String) -> Bool {
        state.withLock { state in
            var entry = entry(host, state)
            guard Double(entry.active + 1) <= entry.limit, entry.waiting.isEmpty, entry.limited >= entry.closedUntil
            else {
                return false
            }
            entry.active += 1
            state.hosts[host] = entry
            return true
        }
    }

    /// Counts a download's only connection; waits in turn where the host has as many as it bears. False if the task was
    /// cancelled meanwhile.
    package func enter(_ host: String) async -> Bool {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer: Bool? = state.withLock { state in
                    if Task.isCancelled { return false }
                    var entry = entry(host, state)
                    let isFree = Double(entry.active + 1) <= entry.limit && entry.waiting.isEmpty
                    if isFree { entry.active += 1 } else { entry.waiting.append((id, continuation)) }
                    state.hosts[host] = entry
                    return isFree ? true : nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            state.withLock { state -> CheckedContinuation<Bool, Never>? in
                guard let index = state.hosts[host]?.waiting.firstIndex(where: { $0.id == id }) else { return nil }
                return state.hosts[host]?.waiting.remove(at: index).continuation
            }?.resume(returning: false)
        }
    }

    package func leave(_ host: String) {
        let next = state.withLock { state -> [CheckedContinuation<Bool, Never>] in
            var entry = entry(host, state)
            entry.active -= 1
            var next: [CheckedContinuation<Bool, Never>] = []
            while Double(entry.active + 1) <= entry.limit, !entry.waiting.isEmpty {
                next.append(entry.waiting.removeFirst().continuation)
                entry.active += 1
            }
            // A host that bears all it may is as good as unknown.
            let isKnown = entry.active > 0 || entry.limit < Double(state.most) || entry.limited < entry.closedUntil
            state.hosts[host] = isKnown ? entry : nil
            return next
        }
        for continuation in next { continuation.resume(returning: true) }
    }

    /// The host asked for less, by 429, 503 or by refusing to connect. Called when the connection has left: those that are
    /// there are what it bears.
    package func complain(_ host: String, retryAfter: Duration?) {
        state.withLock { state in
            var entry = entry(host, state)
            let now = entry.limited
            if entry.refused == 0 || now > entry.refused + Self.together { state.backoffs += 1 }
            if entry.refused > 0, now > entry.refused + Self.together {
                entry.recovery = min(Self.longestRecovery, 4 * entry.recovery)
            }
            entry.refused = now
            entry.limit = max(1, min(entry.limit, Double(entry.active)))
            if let retryAfter {
                entry.closedUntil = max(entry.closedUntil, now + UInt64(retryAfter.secondsValue * 1e9))
            }
            state.hosts[host] = entry
        }
    }

    package var figures: Figures {
        state.withLock { state in
            var figures = Figures()
            figures.backoffs = state.backoffs
            for name in state.hosts.keys {
                let host = entry(name, state)
                figures.active += host.active
                figures.waiting += host.waiting.count
                if host.limit < Double(state.most) { figures.limits.append((name, host.limit)) }
            }
            return figures
        }
    }

    /// What is known of the host by now.
    private func entry(_ host: String, _ state: borrowing State) -> Host {
        // Read under the lock, so that it never runs backwards.
        let now = monotonicNanoseconds()
        guard var entry = state.hosts[host] else { return Host(limit: Double(state.most), limited: now) }
        entry.limit = min(Double(state.most), entry.limit + Double(now - entry.limited) / entry.recovery)
        entry.limited = now
        return entry
    }
}
