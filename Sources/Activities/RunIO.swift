package import HaulContract
import HaulExecutors
import HaulHTTP
package import HaulStorage
import Synchronization

/// Whoever has started an attempt: a worker for Redis, `haul get` or `haul put`.
package protocol RunHost: Sendable {
    /// Asked before a file gets its final name.
    var runLease: RunLease { get }
    /// Receives a sentence about each decision, without secrets. nil without `--verbose`.
    var trace: (@Sendable (String) -> Void)? { get }
    func report(_ event: ActivityEvent)
    /// Records where another run can continue. The next checkpoint waits for it.
    ///
    /// - Parameters:
    ///   - isUrgent: Many bytes are at stake, or the point names a new partial file or upload.
    ///   - duration: How long the checkpoint took. nil if the point only names a location.
    func record(_ point: ResumePoint, isUrgent: Bool, duration: Duration?) async
    /// The run begins to wait for a connection to its host, or is active again.
    func activityChanged() async
    /// Records that the request is about to be sent, so that no other run sends it. If it returns false, this run must
    /// not send the request either.
    func markSent() async -> Bool
    /// The file is durable under its final name.
    func recordCommit(duration: Duration)
    /// The gate has judged the file.
    func recordGate(_ verdict: Gate.Verdict, duration: Duration)
}

// The defaults, for commands that run without Redis: their lock lasts as long as their process.
extension RunHost {
    package var runLease: RunLease { RunLease(isHeld: { true }, confirm: { true }) }
    package var trace: (@Sendable (String) -> Void)? { nil }
    package func record(_ point: ResumePoint, isUrgent: Bool, duration: Duration?) async {}
    package func activityChanged() async {}
    package func markSent() async -> Bool { true }
    package func recordCommit(duration: Duration) {}
    package func recordGate(_ verdict: Gate.Verdict, duration: Duration) {}
}

/// A wait of a run, during which it transfers nothing.
package struct RunWait: Sendable {
    /// The raw values are those of the job's field `waiting`.
    package enum Reason: String, Sendable {
        /// A connection to its host.
        case host
        /// The turn of its gate, and then the verdict.
        case gate
    }

    package let reason: Reason
    /// Monotonic nanoseconds.
    let since: UInt64
}

/// What an activity may do besides its own work while it runs.
package final class RunIO: Sendable {
    private struct State {
        var wait: RunWait?
        var location: ResumePoint?
    }

    private let host: any RunHost
    private let state = Mutex(State())

    package init(_ host: any RunHost) { self.host = host }

    package var lease: RunLease { host.runLease }
    package var trace: (@Sendable (String) -> Void)? { host.trace }

    package func report(_ event: ActivityEvent) { host.report(event) }

    /// Records that the request is about to be sent. If it returns false, the request must not be sent.
    package func markSent() async -> Bool { await host.markSent() }

    package func recordCommit(duration: Duration) { host.recordCommit(duration: duration) }

    func recordGate(_ verdict: Gate.Verdict, duration: Duration) { host.recordGate(verdict, duration: duration) }

    /// The run has opened a new partial file, or created an upload at a server. A run that has ended by the next pass
    /// over all runs need not report it, so that a short run costs no call.
    package func recordLocation(_ point: ResumePoint?) { state.withLock { $0.location = point } }

    /// Waits for a connection to the run's host, and shows the wait to others. Returns what `enter` returns.
    package func waitForHost(_ enter: () async -> Bool) async -> Bool {
        state.withLock { $0.wait = RunWait(reason: .host, since: monotonicNanoseconds()) }
        await host.activityChanged()
        let isIn = await enter()
        state.withLock { $0.wait = nil }
        await host.activityChanged()
        return isIn
    }

    /// Waits for the gate's turn and for its verdict, and shows the wait to others. Returns what `judge` returns.
    func waitForGate<T>(_ judge: () async throws(TransferError) -> T) async throws(TransferError) -> T {
        state.withLock { $0.wait = RunWait(reason: .gate, since: monotonicNanoseconds()) }
        defer { state.withLock { $0.wait = nil } }
        return try await judge()
    }

    // MARK: Used by Attempt

    func takeLocation() -> ResumePoint? { state.withLock { $0.location.take() } }

    /// What the run waits for. nil if it does not wait.
    var wait: RunWait? { state.withLock { $0.wait } }

    func record(_ point: ResumePoint, isUrgent: Bool, duration: Duration?) async {
        await host.record(point, isUrgent: isUrgent, duration: duration)
    }
}
