import Foundation
import HaulContract

@testable import HaulBus

/// Works out what must become of every job, by the tables and promises of docs/reference/. It knows what was done
/// to the job, and not how the functions do it.
struct Ledger {
    let policy: QueuePolicy
    var jobs: [String: ExpectedJob] = [:]
    /// In the order of the jobs' first pushes, because a dictionary's order differs from run to run.
    var ids: [String] = []
    /// When the hashes of dropped jobs expire.
    private var retired: [String: Int64] = [:]
    /// The reply lists that invalid elements have named.
    var rejectedReplyLists: Set<String> = []
    /// By their names.
    var schedules: [String: ExpectedSchedule] = [:]
    /// The ids that all runs of a schedule share. Their jobs come back, so that nothing of them is dropped.
    private var sharedIDs: Set<String> = []
    /// The last entry of the event stream whose webhook was recorded.
    var reportedEntry = "0-0"
    var now: Int64 = 0
    /// When the last tick was, and until when no job is reaped.
    var lastTick: Int64?
    var grace: Int64 = 0
    /// How many jobs had a deadline in the past when the current tick began.
    private(set) var overdue = 0
    /// Workers that the current tick reports as dead.
    var deadWorkers: Set<String> = []
    private(set) var violations: [String] = []
    /// The id of the job whose changes are printed.
    private let tracedID = ProcessInfo.processInfo.environment["HAUL_SIMULATION_TRACE"]

    init(policy: QueuePolicy) { self.policy = policy }

    func trace(_ id: String, _ what: @autoclosure () -> String) {
        if id == tracedID { print("at \(now - Simulation.dawn): \(id) \(what())") }
    }

    mutating func recordViolation(_ what: String) {
        violations.append("at \(now - Simulation.dawn): \(what)")
        if tracedID != nil { print("violation: \(violations.last!)") }
    }

    /// Replaces the ledger `later` after a rollback to the time of this one. The violations are kept.
    mutating func returned(from later: Ledger) {
        violations = later.violations
        now = later.now
    }

    // MARK: What was done

    mutating func recordPush(_ id: String, _ job: ExpectedJob) {
        if jobs[id] == nil { ids.append(id) }
        // An operation may have come before the first push.
        let isFirst = jobs[id]?.element.isEmpty ?? true
        jobs[id, default: job].element = job.element
        if isFirst { (jobs[id]!.isTimed, jobs[id]!.isPoison) = (job.isTimed, job.isPoison) }
        markPending(id)
        trace(id, "pushed: \(job.element)")
        jobs[id]!.deadlines.formUnion(job.deadlines)
        jobs[id]!.periods.formUnion(job.periods)
        jobs[id]!.replyLists.formUnion(job.replyLists)
    }

    /// Records a webhook, which the functions have pushed.
    mutating func recordWebhook(_ id: String) {
        var job = ExpectedJob(element: ExpectedJob.internalElement, isTimed: true)
        job.periods = [86_400_000]
        recordPush(id, job)
    }

    /// Records the run of a schedule, which a worker has pushed.
    mutating func recordRun(_ id: String) {
        recordPush(id, ExpectedJob(element: ExpectedJob.internalElement, isTimed: true))
        if schedules[id] != nil { sharedIDs.insert(id) }
    }

    /// The ids of the jobs that get pushes and operations.
    var steeredIDs: [String] { ids.filter { jobs[$0]?.isInternal == false } }

    mutating func markPending(_ id: String) { (jobs[id]!.pendingSince, jobs[id]!.lastPush) = (now, now) }

    mutating func recordOperation(_ operation: ControlOperation, of id: String, isTimed: Bool) {
        if jobs[id] == nil {
            ids.append(id)
            jobs[id] = ExpectedJob(element: "", isTimed: true)
        }
        trace(id, "operation: \(operation)")
        jobs[id]!.pendingOperation = ExpectedJob.Operation(kind: operation, timestamp: now, isTimed: isTimed)
    }

    /// Records that a tick begins.
    mutating func recordTick() {
        if let lastTick, now - lastTick > 2500 { grace = now + policy.lease.inMilliseconds }
        lastTick = now
        overdue = jobs.values.count { $0.facts.deadline.map { $0 <= now } ?? false && $0.facts.state?.isFinal == false }
    }

    mutating func recordLease(of run: Run) { jobs[run.id]!.lease = now + policy.lease.inMilliseconds }

    /// Records whether a report says that the run is at work.
    mutating func recordReport(_ run: Run, _ report: RunReport) {
        if let token = report.fields.first(where: { $0.0 == "active_token" }) { jobs[run.id]!.activeToken = token.1 }
    }

    /// Records that the offsets are durable.
    mutating func recordCheckpoint(_ id: String, _ report: RunReport) {
        guard let offsets = report.offsets else { return }
        jobs[id]!.checkpoint = offsets
        jobs[id]!.losses = 0
    }

    // MARK: What is known

    /// Whether a run is its job's current one.
    func holds(_ run: Run) -> Bool {
        guard let facts = jobs[run.id]?.facts else { return false }
        return facts.state == .running && facts.token == run.token
    }

    func remembers(_ id: String) -> Bool { jobs[id]?.facts.state != nil }

    /// Whether operations wait to be applied.
    var hasPendingOperations: Bool { jobs.values.contains { $0.pendingOperation != nil } }

    /// Forgets and returns the jobs whose hashes have expired by now.
    mutating func expired() -> [String] {
        let over = ids.filter { jobs[$0]!.expiry.map { $0 <= now } ?? false }
        for id in over {
            jobs[id]!.forget(tombstone: nil)
            jobs[id]!.facts = Facts()
            trace(id, "expired")
        }
        let gone = retired.filter { $0.value <= now }.map(\.key)
        for id in gone { retired[id] = nil }
        return over + gone
    }

    /// Drops old jobs that have ended or are unknown, and that are not in the queue. Nothing more happens to them.
    mutating func dropOld(window: Int, waitingIDs: Set<String>) {
        let done = Set(
            ids.dropLast(window).filter {
                let job = jobs[$0]!
                return job.facts.state?.isFinal ?? (job.want == nil) && job.pendingOperation == nil
                    && !waitingIDs.contains($0) && !sharedIDs.contains($0)
            })
        for id in done {
            if jobs[id]!.pendingSince != nil { recordViolation("\(id): a push or an operation was lost") }
            retired[id] = jobs[id]!.expiry
            jobs[id] = nil
        }
        ids.removeAll { done.contains($0) }
    }
}
