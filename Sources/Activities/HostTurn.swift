import HaulExecutors
import HaulHTTP
import Synchronization

/// A run's wait for its host's turn, as those see it who look from other threads.
final class HostTurn: Sendable {
    private let hosts: HostLimits
    private let workChanged: (@Sendable () async -> Void)?
    /// Monotonic nanoseconds.
    private let waitingSince = Mutex<UInt64?>(nil)

    /// `workChanged` is told when the wait begins, and when it ends.
    init(_ hosts: HostLimits, workChanged: (@Sendable () async -> Void)?) {
        (self.hosts, self.workChanged) = (hosts, workChanged)
    }

    /// Waits for the host's turn. False if the task was cancelled meanwhile.
    func enter(_ host: String) async -> Bool {
        waitingSince.withLock { $0 = monotonicNanoseconds() }
        await workChanged?()
        let isIn = await hosts.enter(host)
        waitingSince.withLock { $0 = nil }
        await workChanged?()
        return isIn
    }

    var isAwaited: Bool { waitingSince.withLock { $0 != nil } }

    /// For a second, or more.
    var isAwaitedLong: Bool {
        waitingSince.withLock { since in since.map { monotonicNanoseconds() >= $0 + 1_000_000_000 } ?? false }
    }
}
