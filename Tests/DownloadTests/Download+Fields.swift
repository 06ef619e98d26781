import HaulContract
import HaulHTTP
import HaulStorage

@testable import HaulActivities

extension Download {
    /// A run that asks `mayCommit` before it commits, unless `isLeaseHeld` is true.
    convenience init(
        job: Job, token: String, key: String, resume: ResumePoint?, completed: CompletedFile?, clock: SharedClock,
        context: DownloadContext, isLeaseHeld: @escaping @Sendable () -> Bool = { false },
        mayCommit: @escaping @Sendable () async -> Bool, report: @escaping @Sendable (ActivityEvent) -> Void
    ) {
        var assignment = Assignment(
            job: job, token: token, key: key, clock: clock,
            lease: RunLease(isHeld: isLeaseHeld, confirm: mayCommit), report: report)
        (assignment.resume, assignment.completed) = (resume, completed)
        self.init(assignment, context: context)
    }
}

extension DownloadContext {
    /// Fewer connections than a worker has, so that tests know how many there are.
    init(store: any Store, engine: TransferEngine) {
        self.init(
            store: store, engine: engine, hosts: HostLimits(maxPerHost: 8), connections: 4,
            connectTimeout: .seconds(15),
            stallTimeout: .seconds(20))
    }
}
