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
    let metrics: QueueMetrics

    func claimed(_ claim: Claim) {
        metrics.claims.increment()
        if claim.wasLost { metrics.takeovers.increment() }
    }

    func began(_ claim: Claim, _ job: Job) {
        if claim.wasLost {
            log.notice("job claimed again: its worker was lost", metadata: metadata(claim, job))
        } else {
            log.debug("job started", metadata: metadata(claim, job))
        }
    }

    func log(_ event: ActivityEvent, of claim: Claim, _ job: Job) {
        switch event {
        case .resumed(let offset, let total):
            metrics.resumes.increment()
            log.info(
                "job resumed",
                metadata: metadata(claim, job, ["bytes": .stringConvertible(offset)], ["total": total.map(number)]))
        case .restarted(let why):
            metrics.restarts.increment()
            log.notice("job restarts: its bytes were dropped", metadata: metadata(claim, job, ["reason": .string(why)]))
        case .warning(let text):
            log.info("job has a warning", metadata: metadata(claim, job, ["reason": .string(text)]))
        case .started(let total, _):
            log.debug("server answered", metadata: metadata(claim, job, [:], ["total": total.map(number)]))
        }
    }

    /// The lease has ended, as Redis has replied.
    func fenced(_ claim: Claim, _ job: Job?) {
        metrics.fenced.increment()
        log.warning("fenced: another worker has the job", metadata: metadata(claim, job))
    }

    /// The run has ended, and is settled if Redis could be reached.
    func ended(_ end: JobRunner.End, as result: RunResult) {
        let duration = ContinuousClock.now - end.begun
        metrics.runs.record(duration)
        metrics.refetched.increment(by: end.refetched)
        let (name, message, level) = result.summary
        metrics.ended(name, code: result.failure?.code)
        if end.job?.request.webhook != nil {
            // If the deadline is before the next attempt, Redis ends the job then, and no worker counts that.
            let next = result.delay.map { end.claim.clock.milliseconds + Int64($0.milliseconds) }
            let isLast = next.map { $0 >= end.claim.deadline ?? .max } ?? false
            metrics.sentWebhook(isLast ? "failed" : name)
        }
        guard log.logLevel <= level else { return }
        var metadata = self.metadata(end.claim, end.job, ["seconds": .stringConvertible(duration.roundedSeconds)])
        if let bytes = result.bytes ?? end.received { metadata["bytes"] = number(bytes) }
        if let file = result.file { metadata["file"] = .string(file) }
        if let why = result.why { metadata["reason"] = .string(why) }
        if let delay = result.delay { metadata["delay"] = .stringConvertible(delay.roundedSeconds) }
        if let failure = result.failure {
            metadata["error"] = .string(failure.code.rawValue)
            metadata["reason"] = .string(failure.message)
            if let detail = failure.detail { metadata["detail"] = .string(detail) }
        }
        log.log(level: level, message, metadata: metadata)
    }

    private func number(_ value: Int64) -> Logger.Metadata.Value { .stringConvertible(value) }

    private func metadata(
        _ claim: Claim, _ job: Job?, _ more: Logger.Metadata = [:], _ optional: [String: Logger.Metadata.Value?] = [:]
    ) -> Logger.Metadata {
        var metadata = more
        metadata["id"] = .string(claim.run.id)
        metadata["attempt"] = .stringConvertible(claim.attempt + 1)
        if let host = job?.urls.first.flatMap({ WebURL($0) ?? WebURL.object($0) })?.host {
            metadata["host"] = .string(host)
        }
        if let parent = job?.traceParent { metadata["traceparent"] = .string(parent) }
        for case (let name, let value?) in optional { metadata[name] = value }
        return metadata
    }
}

extension Duration {
    /// Seconds, to the millisecond.
    var roundedSeconds: Double { Double(milliseconds) / 1000 }
}
