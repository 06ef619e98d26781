import HaulContract
import HaulExecutors
import Synchronization

/// Limits a worker's connections to each host, over all of its downloads.
///
/// A host that refuses, or asks for fewer, retains as many connections as it has accepted. After ten seconds it gets
/// one more. If it refuses this one too, the wait for the next try is four times as long.
package final class HostLimits: Sendable {
    private struct Host {
        var active = 0
        /// Refused connections that have not left yet. They are not among the active ones.
        var refusedConnections = 0
        /// The number of connections that the host is thought to accept, as of `limited` (monotonic nanoseconds).
        var limit: Double
        var limited: UInt64
        /// The time after which one more connection is tried: nanoseconds.
        var recovery = HostLimits.recovery
        /// When the host last refused, in monotonic nanoseconds; 0 if it never did.
        var refused: UInt64 = 0
        /// No extra connection is opened before this time, in monotonic nanoseconds.
        var closedUntil: UInt64 = 0
        var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []

        /// Counts as many waiting downloads as the limit has capacity for, and returns them to be resumed.
        mutating func admit() -> [CheckedContinuation<Bool, Never>] {
            var next: [CheckedContinuation<Bool, Never>] = []
            while Double(active + 1) <= limit, !waiting.isEmpty {
                next.append(waiting.removeFirst().continuation)
                active += 1
            }
            return next
        }

        /// Opens no extra connection for a time after `limited`.
        mutating func close(for time: Duration) {
            closedUntil = max(closedUntil, limited + UInt64(time.secondsValue * 1e9))
        }

        /// Whether the host is like an unknown one, so that it needs no entry.
        func isForgettable(_ maxPerHost: Int) -> Bool {
            active + refusedConnections <= 0 && waiting.isEmpty && limit >= Double(maxPerHost)
                && limited >= closedUntil
        }
    }

    private struct State {
        var hosts: [String: Host] = [:]
        var lastID: UInt64 = 0
        var backoffs: Int64 = 0
        /// The maximum number of connections to one host.
        var maxPerHost: Int
        /// A task checks every second whether a waiting download may begin.
        var isWatched = false
        /// When there are so many hosts, those that have recovered are removed.
        var sweepCount = HostLimits.minSweepCount
    }

    /// Figures over all hosts, for the operator.
    package struct Figures: Sendable {
        /// Open connections.
        package var active = 0
        /// Downloads that wait for their first connection.
        package var waiting = 0
        /// How often a host refused. Refusals that follow each other closely count as one.
        package var backoffs: Int64 = 0
        /// Hosts that get fewer connections than the maximum.
        package var limits: [(host: String, limit: Double)] = []
    }

    private static let recovery = 10e9
    private static let maxRecovery = 640e9
    /// Refusals of one host within this time of each other count as one: nanoseconds.
    private static let together: UInt64 = 2_000_000_000
    private static let minSweepCount = 128
    private let state: Mutex<State>
    /// The monotonic clock, in nanoseconds.
    private let clock: @Sendable () -> UInt64

    /// - Parameter maxPerHost: The maximum number of connections to one host.
    package init(maxPerHost: Int, clock: @escaping @Sendable () -> UInt64 = monotonicNanoseconds) {
        state = Mutex(State(maxPerHost: max(1, maxPerHost)))
        self.clock = clock
    }

    /// The number of hosts that are remembered.
    var count: Int { state.withLock { $0.hosts.count } }

    /// Changes the maximum number of connections to one host. Open connections stay.
    package func setMax(_ maxPerHost: Int) {
        state.withLock { state in
            let before = Double(state.maxPerHost)
            state.maxPerHost = max(1, maxPerHost)
            // A host that accepted the old maximum is taken to accept the new one.
            for name in state.hosts.keys where state.hosts[name]?.limit == before {
                state.hosts[name]?.limit = Double(state.maxPerHost)
            }
        }
        admit()
    }

    /// Counts an extra connection of a download. False if the host accepts no more, asked for a pause, or is needed by
    /// a download that waits for its first connection.
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

    /// Counts a download's first connection. Waits in order while the host accepts no more. False if cancelled.
    package func enter(_ host: String) async -> Bool {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isAdmitted, mustWatch) = state.withLock { state -> (Bool?, Bool) in
                    if Task.isCancelled { return (false, false) }
                    var entry = entry(host, state)
                    let isFree = Double(entry.active + 1) <= entry.limit && entry.waiting.isEmpty
                    if isFree { entry.active += 1 } else { entry.waiting.append((id, continuation)) }
                    state.hosts[host] = entry
                    if isFree { return (true, false) }
                    defer { state.isWatched = true }
                    return (nil, !state.isWatched)
                }
                if let isAdmitted { continuation.resume(returning: isAdmitted) }
                if mustWatch { Task { await watch() } }
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
            // The connections of a host are alike: which of them leaves first does not matter.
            if entry.refusedConnections > 0 { entry.refusedConnections -= 1 } else { entry.active -= 1 }
            let next = entry.admit()
            state.hosts[host] = entry.isForgettable(state.maxPerHost) ? nil : entry
            return next
        }
        for continuation in next { continuation.resume(returning: true) }
    }

    /// Admits waiting downloads whose host accepts more connections by now, because a limit recovers with time even if
    /// no connection ends. Returns whether others still wait.
    @discardableResult private func admit() -> Bool {
        let (next, isAwaited) = state.withLock { state in
            var next: [CheckedContinuation<Bool, Never>] = []
            for host in state.hosts.keys where state.hosts[host]?.waiting.isEmpty == false {
                var entry = entry(host, state)
                next += entry.admit()
                state.hosts[host] = entry
            }
            state.isWatched = state.isWatched && state.hosts.values.contains { !$0.waiting.isEmpty }
            return (next, state.isWatched)
        }
        for continuation in next { continuation.resume(returning: true) }
        return isAwaited
    }

    /// Runs while a download waits.
    private func watch() async {
        repeat { try? await Task.sleep(for: .seconds(1)) } while admit()
    }

    /// The host asked for fewer: it responded with 429 or 503, or refused to connect. It accepts the other connections.
    ///
    /// The refused connection no longer counts, so that the next one that is refused at the same time is not counted
    /// as accepted. Its `leave` comes later, and admits a waiting download.
    package func backOff(_ host: String, retryAfter: Duration?) {
        state.withLock { state in
            var entry = entry(host, state)
            let now = entry.limited
            if entry.refused == 0 || now > entry.refused + Self.together { state.backoffs += 1 }
            if entry.refused > 0, now > entry.refused + Self.together {
                entry.recovery = min(Self.maxRecovery, 4 * entry.recovery)
            }
            entry.refused = now
            entry.active -= 1
            entry.refusedConnections += 1
            entry.limit = max(1, min(entry.limit, Double(entry.active)))
            if let retryAfter { entry.close(for: retryAfter) }
            state.hosts[host] = entry
            sweep(&state)
        }
    }

    /// The host has refused another request on a connection that no longer counts: it is to be left alone for that time.
    package func close(_ host: String, for time: Duration) {
        state.withLock { state in
            var entry = entry(host, state)
            entry.close(for: time)
            state.hosts[host] = entry
            sweep(&state)
        }
    }

    /// Removes the hosts that have recovered since they refused, and that no transfer has used since. The next sweep
    /// comes when the number of hosts has doubled, so that its cost is spread over the refusals.
    private func sweep(_ state: inout State) {
        guard state.hosts.count >= state.sweepCount else { return }
        for name in Array(state.hosts.keys) where entry(name, state).isForgettable(state.maxPerHost) {
            state.hosts[name] = nil
        }
        state.sweepCount = max(Self.minSweepCount, 2 * state.hosts.count)
    }

    package var figures: Figures {
        state.withLock { state in
            var figures = Figures()
            figures.backoffs = state.backoffs
            for name in state.hosts.keys {
                let host = entry(name, state)
                figures.active += host.active
                figures.waiting += host.waiting.count
                if host.limit < Double(state.maxPerHost) { figures.limits.append((name, host.limit)) }
            }
            return figures
        }
    }

    /// The host's entry, with the limit that it has recovered up to now.
    private func entry(_ host: String, _ state: borrowing State) -> Host {
        // The time is read under the lock, so that it never runs backwards.
        let now = clock()
        guard var entry = state.hosts[host] else { return Host(limit: Double(state.maxPerHost), limited: now) }
        entry.limit = min(Double(state.maxPerHost), entry.limit + Double(now - entry.limited) / entry.recovery)
        entry.limited = now
        return entry
    }
}
