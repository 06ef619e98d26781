import HaulActivities
import HaulBus
import HaulContract

/// What Redis does not know yet about a run. A call takes it, and puts it back if it fails.
struct PendingReport {
    private(set) var resume: ResumePoint?
    private var isResumeUnreported = false
    /// A call has the resume point, and Redis has not answered it yet.
    private var isResumeUnanswered = false
    /// Redis may have recorded that the request is sent.
    var isMarkedSent = false
    /// A message has announced a control operation for the run, which the next tick reads.
    private var isControlPending = false
    private var events: [Announcement] = []
    private var firstEvent = ContinuousClock.now
    private var lastProgress: ContinuousClock.Instant
    /// What was last reported: what the run waits for, and whether it is at work.
    private var reported: (waitsFor: RunWait.Reason?, isActive: Bool)
    /// The report of `reported.waitsFor` has failed.
    private var isWaitUnreported = false

    /// - Parameter isActive: Redis knows already that the run is at work.
    init(resume: ResumePoint?, isActive: Bool, now: ContinuousClock.Instant = .now) {
        (self.resume, lastProgress) = (resume, now)
        reported = (nil, isActive)
    }

    /// Whether an early tick has to report the run.
    var needsTick: Bool { !events.isEmpty || isResumeUnreported || isControlPending }

    /// When the oldest event that is not reported yet was announced; nil if there is none.
    var oldestEvent: ContinuousClock.Instant? { events.isEmpty ? nil : firstEvent }

    /// How many events wait at most. A server could cause any number of warnings while Redis is away, and one call of
    /// Redis has all that wait.
    static let maxEvents = 50

    mutating func announce(_ event: Announcement, now: ContinuousClock.Instant = .now) {
        if events.isEmpty { firstEvent = now }
        events.append(event)
        dropWarnings()
    }

    /// Drops the oldest warnings if there are too many events. The worker's log has all of them.
    private mutating func dropWarnings() {
        while events.count > Self.maxEvents, let oldest = events.firstIndex(where: { $0.name == "warning" }) {
            events.remove(at: oldest)
        }
    }

    mutating func markControlPending() { isControlPending = true }

    mutating func record(_ resume: ResumePoint) { (self.resume, isResumeUnreported) = (resume, true) }

    /// The bytes that Redis may know of are gone.
    mutating func forgetBytes() {
        guard let resume else { return }
        self.resume?.offsets = ByteIntervals()
        self.resume?.blockChecks = [:]
        self.resume?.storeState = ""
        isResumeUnreported = isResumeUnreported || !resume.offsets.isEmpty
    }

    mutating func take() -> RunReport {
        var report = RunReport()
        if isResumeUnreported, let resume { report.set(resume) }
        report.events = events
        (isResumeUnreported, events, isControlPending) = (false, [], false)
        return report
    }

    /// The same for a run that has ended. It has the resume point of a call that is not answered yet as well, because that
    /// call may fail, or come behind the settle.
    mutating func takeLast() -> RunReport {
        isResumeUnreported = isResumeUnreported || isResumeUnanswered
        return take()
    }

    /// The same for an active run, with its progress.
    mutating func take(
        _ progress: ActivityProgress, waitsFor: RunWait.Reason?, isActive: Bool, of run: Run,
        now: ContinuousClock.Instant = .now
    ) -> RunReport {
        var report = take()
        isResumeUnanswered = isResumeUnanswered || report.offsets != nil
        if progress.connections > 0 || progress.received > 0 {
            report.fields += [("received", String(progress.received)), ("speed", String(progress.speed))]
            if let total = progress.total { report.fields.append(("total", String(total))) }
            // One event a second, however many ticks there are.
            if now - lastProgress >= .milliseconds(900) {
                lastProgress = now
                report.events.append(Announcement("progress") { progress.write(to: &$0) })
            }
        }
        if waitsFor != reported.waitsFor || isWaitUnreported {
            report.fields.append(("waiting", waitsFor?.rawValue ?? ""))
            if let waitsFor { report.events.append(Announcement("waiting") { $0.set("why", waitsFor.rawValue) }) }
        }
        if isActive != reported.isActive { report.set(isActive: isActive, of: run) }
        (reported, isWaitUnreported) = ((waitsFor, isActive), false)
        return report
    }

    /// Redis has answered the call that had the report.
    mutating func confirm() { isResumeUnanswered = false }

    /// The report failed. Events of progress and waits are out of date by now; the other events must not be lost.
    mutating func putBack(_ report: RunReport) {
        if report.offsets != nil { (isResumeUnreported, isResumeUnanswered) = (true, false) }
        if report.reportsWaiting { isWaitUnreported = true }
        if report.reportsActivity { reported.isActive.toggle() }
        events = report.events.filter { !["progress", "waiting"].contains($0.name) } + events
        dropWarnings()
    }
}
