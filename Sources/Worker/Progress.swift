import HaulActivities
import HaulBus
import HaulContract

/// What a tick tells of a run's progress: fields of the hash and, once a second, an event.
enum Progress {
    /// A run whose host has as many connections as it bears is running, and does nothing: it says so, and when that is over.
    static func add(wait isWaiting: Bool, to report: inout RunReport, of running: RunningJob) {
        guard running.note(isWaiting: isWaiting) else { return }
        report.fields.append(("waiting", isWaiting ? "host" : ""))
        guard isWaiting else { return }
        // A job that ends loses both fields, which is looked for where there is a speed.
        report.fields.append(("speed", "0"))
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
