import HaulBus
import HaulContract

/// The shapes of the API's objects besides jobs: docs/reference/openapi.json is generated from these declarations.
enum Shapes {
    static let worker: [JSONMember] = [
        JSONMember("name", .text, "The worker's name.", isAlways: true),
        JSONMember(
            "state", .choice(WorkerState.allCases.map(\.rawValue)),
            "working; quiet: claims no more jobs; ending: returns its jobs; lost: not seen for its lease.",
            isAlways: true),
        JSONMember("host", .text, "The name of its machine."),
        JSONMember("pid", .integer, "The process on its machine."),
        JSONMember("version", .text, "The version of Haul."),
        JSONMember("slots", .integerOr("unlimited"), "How many jobs it runs at once."),
        JSONMember("running", .integer, "How many jobs it runs now."),
        JSONMember("seen", .integer, "Unix milliseconds at which it was last seen."),
        JSONMember("store", .text, "The id of its root or bucket."),
        JSONMember("lease", .integer, "After how many milliseconds of silence it is lost."),
        JSONMember("kinds", .text, "The kinds of jobs that it does, with blanks between them."),
        JSONMember("received", .integer, "Bytes of bodies since it began."),
        JSONMember(
            "free", .integer,
            "Bytes that downloads may use on the disk of its root; with 0 it takes no jobs. Absent with a bucket."),
        JSONMember("speed", .integer, "Bytes per second of its running jobs.", isAlways: true),
        JSONMember("waiting", .ranking, "What its running jobs wait for.", isAlways: true),
    ]

    static let batch: [JSONMember] =
        [JSONMember("name", .id, "The batch's name.", isAlways: true)]
        + BatchState.allCases.map { state in
            JSONMember(state.rawValue, .integer, meaning(of: state), isAlways: true)
        } + [
            JSONMember("size", .integer, "How many jobs it will have, if a push has said so."),
            JSONMember("round", .integer, "How often it has ended.", isAlways: true),
            JSONMember("created", .integer, "Unix milliseconds at which its first job was seen."),
            JSONMember("finished", .integer, "Unix milliseconds at which it ended; absent while a job is pending."),
            JSONMember("wanted", .choice(["paused", "cancelled"]), "What happens to members that come later."),
            JSONMember("reply_to", .names, "The lists that get its end.", isAlways: true),
        ]

    private static func meaning(of state: BatchState) -> String {
        switch state {
        case .pending: "Jobs that have not ended."
        case .rejected: "Elements that were not valid jobs."
        default: "Jobs that ended as \(state.rawValue)."
        }
    }

    static let schedule: [JSONMember] = [
        JSONMember("schedule", .text, "The schedule's name.", isAlways: true),
        JSONMember("every", .integer, "Seconds between two runs, which are due at the multiples of it since 1970."),
        JSONMember("cron", .text, "A cron expression of five fields."),
        JSONMember("zone", .text, "The IANA time zone of cron; UTC if absent."),
        JSONMember("catch_up", .choice(Schedule.CatchUp.allCases.map(\.rawValue)), "What becomes of missed runs."),
        JSONMember(
            "overlap", .choice(Schedule.Overlap.allCases.map(\.rawValue)),
            "What becomes of a run that is due while the last one has not ended."),
        JSONMember("unique", .flag, "Each run is a job of its own."),
        JSONMember("paused", .flag, "Nothing is due."),
        JSONMember("url", .text, "The first URL of the job, without secrets."),
        JSONMember("next", .integer, "Unix milliseconds at which it is due next."),
        JSONMember("last_id", .id, "The job of the last run."),
        JSONMember("last_due", .integer, "Unix milliseconds at which the last run was due."),
        JSONMember("last_at", .integer, "Unix milliseconds at which the last run was pushed."),
        JSONMember(
            "last_state", .choice(JobState.allCases.map(\.rawValue)), "The state of that job, while it is kept."),
        JSONMember("pushed", .integer, "How many runs were pushed.", isAlways: true),
        JSONMember("skipped", .integer, "How many runs were skipped.", isAlways: true),
        JSONMember("missed", .integer, "How often runs were missed.", isAlways: true),
        JSONMember("error", .text, "Why the definition is not valid."),
    ]

    static let queue: [JSONMember] = [
        JSONMember("queue", .text, "The queue's name.", isAlways: true),
        JSONMember("now", .integer, "Redis' clock, unix milliseconds.", isAlways: true),
        JSONMember("counts", .counts(JobState.allCases.map(\.rawValue)), "Jobs in each state.", isAlways: true),
        JSONMember("rejected", .integer, "Rejected elements that are kept.", isAlways: true),
        JSONMember("batches", .integer, "How many batches there are.", isAlways: true),
        JSONMember("paused", .flag, "Whether the queue, or one of its partitions, is paused.", isAlways: true),
        JSONMember("paused_partitions", .integer, "In how many partitions it is paused, if others are not."),
        JSONMember("paused_by", .text, "Who paused it, if that was recorded."),
        JSONMember("paused_at", .integer, "Unix milliseconds at which that user paused it."),
        JSONMember("max_running", .integer, "The maximum number of jobs that run at once, if that is limited."),
        JSONMember("workers", .counts(WorkerState.allCases.map(\.rawValue)), "Workers in each state.", isAlways: true),
        JSONMember(
            "oldest_waiting", .integer, "Unix milliseconds at which the job that waits longest was pushed."),
        JSONMember("waiting_ages", .object("Ages"), "How long the next waiting jobs have waited."),
        JSONMember("running_ages", .object("Ages"), "How long the running jobs have run."),
        JSONMember(
            "waiting_for", .ranking,
            "What jobs wait for: running ones for host, gate, disk or store, and scheduled ones for disk or store.",
            isAlways: true),
        JSONMember("next_scheduled", .integer, "Unix milliseconds at which the next scheduled job is due."),
        JSONMember("speed", .integer, "Bytes per second of the running jobs.", isAlways: true),
        JSONMember("speed_of", .integer, "Of how many of them the speed is known.", isAlways: true),
        JSONMember(
            "bottlenecks", .objects("Bottleneck"), "What slows the queue, with what concerns most jobs first.",
            isAlways: true),
        JSONMember("failures", .failures, "The newest 1000 failures, by error and by host.", isAlways: true),
    ]
}
