import HaulBus
import HaulContract

/// What Redis does not know yet about a run. It is removed for a call, and restored if the call fails.
struct RunNews {
    private(set) var resume: ResumePoint?
    private var isResumeNew = false
    /// A message has said that a request waits for the run. The next tick fetches the request.
    private var isAskedFor = false
    private var events: [Announcement] = []
    private var firstEvent = ContinuousClock.now
    private var lastProgress: ContinuousClock.Instant
    /// What was last reported: whether the run waits for its host, and whether it is at work.
    private var reported: (isWaiting: Bool, isActive: Bool)

    /// - Parameter isActive: Redis knows already that the run is at work.
    init(resume: ResumePoint?, isActive: Bool, now: ContinuousClock.Instant = .now) {
        (self.resume, lastProgress) = (resume, now)
        reported = (false, isActive)
    }

    /// Whether a tick that reports only runs with news has to report this one.
    var isAny: Bool { !events.isEmpty || isResumeNew || isAskedFor }

    /// Since when an event waits to be reported; nil if none does.
    var since: ContinuousClock.Instant? { events.isEmpty ? nil : firstEvent }

    mutating func announce(_ event: Announcement, now: ContinuousClock.Instant = .now) {
        if events.isEmpty { firstEvent = now }
        events.append(event)
    }

    mutating func markControlPending() { isAskedFor = true }

    mutating func record(_ resume: ResumePoint) { (self.resume, isResumeNew) = (resume, true) }

    /// Records the location of a partial file. False if a newer generation than `known` has been recorded meanwhile.
    mutating func record(location: ResumePoint, insteadOf known: String?) -> Bool {
        guard resume?.generation == known else { return false }
        record(location)
        return true
    }

    /// The bytes that Redis may know of are gone.
    mutating func forgetBytes() {
        guard let resume else { return }
        self.resume?.offsets = ByteIntervals()
        self.resume?.blockChecks = [:]
        self.resume?.storeState = ""
        isResumeNew = isResumeNew || !resume.offsets.isEmpty
    }

    /// Whether a progress event is due: one a second, however many ticks there are.
    mutating func isProgressDue(at now: ContinuousClock.Instant) -> Bool {
        guard now - lastProgress >= .milliseconds(900) else { return false }
        lastProgress = now
        return true
    }

    /// Notes what is about to be reported. True if it has changed since the last report.
    mutating func record(isWaiting: Bool) -> Bool {
        defer { reported.isWaiting = isWaiting }
        return isWaiting != reported.isWaiting
    }

    mutating func record(isActive: Bool) -> Bool {
        defer { reported.isActive = isActive }
        return isActive != reported.isActive
    }

    mutating func take() -> RunReport {
        var report = RunReport()
        if isResumeNew, let resume { report.set(resume) }
        report.events = events
        (isResumeNew, events, isAskedFor) = (false, [], false)
        return report
    }

    /// The report failed. Events of progress and waits are out of date by now; the other events must not be lost.
    mutating func putBack(_ report: RunReport) {
        if report.offsets != nil { isResumeNew = true }
        if report.reportsWaiting { reported.isWaiting.toggle() }
        if report.reportsActivity { reported.isActive.toggle() }
        events = report.events.filter { !["progress", "waiting"].contains($0.name) } + events
    }
}
