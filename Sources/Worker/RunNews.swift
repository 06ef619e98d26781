import HaulBus
import HaulContract

/// What Redis has not been told of a run: a value. It is taken out for a call, and put back if that fails.
struct RunNews {
    private(set) var resume: ResumePoint?
    private var isResumeNew = false
    /// A message has said that a request waits for the run: the next tick brings it.
    private var isAskedFor = false
    private var events: [Announcement] = []
    private var firstEvent = ContinuousClock.now
    private var lastProgress: ContinuousClock.Instant
    /// What Redis was told last: whether the run waits for its host, and whether it is at work.
    private var reported: (isWaiting: Bool, isAtWork: Bool)

    /// - Parameter isAtWork: Redis was told already that the run is at work.
    init(resume: ResumePoint?, isAtWork: Bool, now: ContinuousClock.Instant = .now) {
        (self.resume, lastProgress) = (resume, now)
        reported = (false, isAtWork)
    }

    /// Whether a tick that is sent only to those with news is for this run.
    var isAny: Bool { !events.isEmpty || isResumeNew || isAskedFor }

    /// Since when an event waits to be told; nil if none does.
    var since: ContinuousClock.Instant? { events.isEmpty ? nil : firstEvent }

    mutating func announce(_ event: Announcement, now: ContinuousClock.Instant = .now) {
        if events.isEmpty { firstEvent = now }
        events.append(event)
    }

    mutating func noteRequest() { isAskedFor = true }

    mutating func note(_ resume: ResumePoint) { (self.resume, isResumeNew) = (resume, true) }

    /// Takes the place of a partial file, unless a newer generation than `known` has been noted meanwhile. True if it was taken.
    mutating func note(place: ResumePoint, insteadOf known: String?) -> Bool {
        guard resume?.generation == known else { return false }
        note(place)
        return true
    }

    /// The bytes that Redis may know of are gone.
    mutating func forgetBytes() {
        guard let resume else { return }
        self.resume?.offsets = ByteIntervals()
        self.resume?.blockChecks = [:]
        self.resume?.journal = ""
        isResumeNew = isResumeNew || !resume.offsets.isEmpty
    }

    /// Whether a progress event is due: one a second, however often the queue is ticked.
    mutating func isProgressDue(at now: ContinuousClock.Instant) -> Bool {
        guard now - lastProgress >= .milliseconds(900) else { return false }
        lastProgress = now
        return true
    }

    /// Notes what Redis is about to be told. True if it is news.
    mutating func note(isWaiting: Bool) -> Bool {
        defer { reported.isWaiting = isWaiting }
        return isWaiting != reported.isWaiting
    }

    mutating func note(isAtWork: Bool) -> Bool {
        defer { reported.isAtWork = isAtWork }
        return isAtWork != reported.isAtWork
    }

    mutating func take() -> RunReport {
        var report = RunReport()
        if isResumeNew, let resume { report.set(resume) }
        report.events = events
        (isResumeNew, events, isAskedFor) = (false, [], false)
        return report
    }

    /// Redis was not told. Progress and waits are of the moment; the other events must not be lost.
    mutating func putBack(_ report: RunReport) {
        if report.offsets != nil { isResumeNew = true }
        if report.tellsOfWait { reported.isWaiting.toggle() }
        if report.tellsOfWork { reported.isAtWork.toggle() }
        events = report.events.filter { !["progress", "waiting"].contains($0.name) } + events
    }
}
