import HaulActivities
import HaulBus
import HaulContract

/// A run's progress in a tick's report: fields of the job's hash and, once a second, an event.
enum ProgressReport {
    /// Reports when a run begins to wait for a connection to its host, and when the wait has ended.
    static func add(wait isWaiting: Bool, to report: inout RunReport, of running: RunningJob) {
        guard running.record(isWaiting: isWaiting) else { return }
        report.fields.append(("waiting", isWaiting ? "host" : ""))
        guard isWaiting else { return }
        report.events.append(Announcement("waiting") { $0.set("why", "host") })
    }

    static func add(_ progress: ActivityProgress, to report: inout RunReport, of running: RunningJob) {
        guard progress.connections > 0 || progress.received > 0 else { return }
        report.fields += [("received", String(progress.received)), ("speed", String(progress.speed))]
        if let total = progress.total { report.fields.append(("total", String(total))) }
        guard running.isProgressDue() else { return }
        report.events.append(Announcement("progress") { progress.write(to: &$0) })
    }
}
