import HaulExecutors
import HaulHTTP
import Synchronization

/// Waits for a connection to the run's host, and lets other threads see the wait.
final class HostWait: Sendable {
    private let hosts: HostLimits
    private let workChanged: (@Sendable () async -> Void)?
    /// Monotonic nanoseconds.
    private let waitingSince = Mutex<UInt64?>(nil)

    /// - Parameter workChanged: Called when a wait begins and when it ends.
    init(_ hosts: HostLimits, workChanged: (@Sendable () async -> Void)?) {
        (self.hosts, self.workChanged) = (hosts, workChanged)
    }

    /// Waits until the host may have one more connection. False if the task was cancelled meanwhile.
    func enter(_ host: String) async -> Bool {
        waitingSince.withLock { $0 = monotonicNanoseconds() }
        await workChanged?()
        let isIn = await hosts.enter(host)
        waitingSince.withLock { $0 = nil }
        await workChanged?()
        return isIn
    }

    var isWaiting: Bool { waitingSince.withLock { $0 != nil } }

    /// Whether the wait has lasted for a second or longer.
    var hasWaitedLong: Bool {
        waitingSince.withLock { since in since.map { monotonicNanoseconds() >= $0 + 1_000_000_000 } ?? false }
    }
}
