import HaulContract
import HaulHTTP
import HaulStorage

@testable import HaulActivities

extension Download {
    /// A run that asks `mayCommit` before it commits, unless `isLeaseHeld` is true.
    convenience init(
        job: Job, token: String, key: String, resume: ResumePoint?, completed: CompletedFile?, clock: SharedClock,
        context: ActivityContext, isLeaseHeld: @escaping @Sendable () -> Bool = { false },
        mayCommit: @escaping @Sendable () async -> Bool, report: @escaping @Sendable (ActivityEvent) -> Void
    ) {
        var assignment = Assignment(job: job, token: token, key: key, clock: clock)
        (assignment.resume, assignment.completed) = (resume, completed)
        let host = TestHost(runLease: RunLease(isHeld: isLeaseHeld, confirm: mayCommit), onEvent: report)
        self.init(assignment, RunIO(host), context: context)
    }
}

struct TestHost: RunHost {
    var runLease = RunLease(isHeld: { true }, confirm: { true })
    var trace: (@Sendable (String) -> Void)?
    var onEvent: @Sendable (ActivityEvent) -> Void = { _ in }
    /// Returns whether the request may be sent.
    var onMark: @Sendable () -> Bool = { true }

    func markSent() async -> Bool { onMark() }

    func report(_ event: ActivityEvent) { onEvent(event) }
}

extension ActivityContext {
    /// Fewer connections than a worker has, so that tests know how many there are.
    init(store: any Store, engine: TransferEngine) {
        self.init(
            store: store, engine: engine, hosts: HostLimits(maxPerHost: 8), connections: 4,
            connectTimeout: .seconds(15),
            stallTimeout: .seconds(20))
    }
}
