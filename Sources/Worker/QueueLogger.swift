import CoreMetrics
import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulMetrics
import Logging

/// Writes a line of the log for each step of each run of a queue, and counts the steps.
struct QueueLogger: Sendable {
    let log: Logger
    let figures: QueueFigures

    func claimed(_ claim: Claim) {
        figures.claims.increment()
        if claim.wasLost { figures.takeovers.increment() }
    }

    func began(_ claim: Claim, _ job: Job) {
        if claim.wasLost {
            log.notice("job claimed again: its worker was lost", metadata: facts(claim, job))
        } else {
            log.debug("job started", metadata: facts(claim, job))
        }
    }

    func log(_ event: ActivityEvent, of claim: Claim, _ job: Job) {
        switch event {
        case .resumed(let offset, let total):
            figures.resumes.increment()
            log.info(
                "job resumed",
                metadata: facts(claim, job, ["bytes": .stringConvertible(offset)], ["total": total.map(number)]))
        case .restarted(let why):
            figures.restarts.increment()
            log.notice("job restarts: its bytes were dropped", metadata: facts(claim, job, ["reason": .string(why)]))
        case .warning(let text):
            log.info("job has a warning", metadata: facts(claim, job, ["reason": .string(text)]))
        case .started(let total, _):
            log.debug("server answered", metadata: facts(claim, job, [:], ["total": total.map(number)]))
        }
    }

    /// The lease has ended, as Redis has replied.
    func fenced(_ claim: Claim, _ job: Job?) {
        figures.fenced.increment()
        log.warning("fenced: another worker has the job", metadata: facts(claim, job))
    }

    /// The run has ended, and is settled if Redis could be reached.
    func ended(_ claim: Claim, _ end: JobRunner.End, as result: RunResult, after duration: Duration) {
        figures.runs.record(duration)
        figures.refetched.increment(by: end.refetched)
        figures.ended(result.name, code: result.failure?.code)
        let level = result.level
        guard log.logLevel <= level else { return }
        var facts = facts(claim, end.job, ["seconds": .stringConvertible(duration.roundedSeconds)])
        if let bytes = result.bytes ?? end.received { facts["bytes"] = number(bytes) }
        if let file = result.file { facts["file"] = .string(file) }
        if let why = result.why { facts["reason"] = .string(why) }
        if let delay = result.delay { facts["delay"] = .stringConvertible(delay.roundedSeconds) }
        if let failure = result.failure {
            facts["error"] = .string(failure.code.rawValue)
            facts["reason"] = .string(failure.message)
            if let detail = failure.detail { facts["detail"] = .string(detail) }
        }
        log.log(level: level, result.message, metadata: facts)
    }

    private func number(_ value: Int64) -> Logger.Metadata.Value { .stringConvertible(value) }

    private func facts(
        _ claim: Claim, _ job: Job?, _ more: Logger.Metadata = [:], _ optional: [String: Logger.Metadata.Value?] = [:]
    ) -> Logger.Metadata {
        var facts = more
        facts["id"] = .string(claim.run.id)
        facts["attempt"] = .stringConvertible(claim.attempt + 1)
        if let host = job?.urls.first.flatMap({ WebURL($0) })?.host { facts["host"] = .string(host) }
        if let parent = job?.traceParent { facts["traceparent"] = .string(parent) }
        for case (let name, let value?) in optional { facts[name] = value }
        return facts
    }
}

extension Duration {
    /// Seconds, to the millisecond.
    var roundedSeconds: Double { Double(milliseconds) / 1000 }
}
