import HaulBus
import HaulContract
import Logging

/// How a run ended, for the log and the metrics.
enum RunResult {
    /// Redis has confirmed the settle.
    case settled(Settlement)
    /// Another worker has the job.
    case fenced
    /// The grace time ended before Redis confirmed the settle.
    case unsettled

    /// The value of the metric's label `result` (docs/operate/metrics.md), and the message and level of the log line.
    var summary: (name: String, message: Logger.Message, level: Logger.Level) {
        switch self {
        case .fenced: ("fenced", "run ended: it was fenced", .debug)
        case .unsettled: ("unsettled", "not settled within the grace time: it runs again elsewhere", .warning)
        case .settled(let settlement):
            switch settlement {
            case .completed(_, _, unchanged: true): ("unchanged", "job completed: its file is unchanged", .info)
            case .responded(_, _, unchanged: true): ("unchanged", "job completed: its response is unchanged", .info)
            case .completed, .responded: ("completed", "job completed", .info)
            case .failed: ("failed", "job failed", .warning)
            case .cancelled: ("cancelled", "job cancelled", .info)
            case .paused: ("paused", "job paused", .info)
            case .retry: ("retried", "job is tried again", .notice)
            case .retryAfterProgress: ("continued", "job is tried again", .notice)
            case .parked: ("waiting", "job waits for the store", .notice)
            case .released: ("released", "job returned to the queue", .info)
            case .rejected: ("rejected", "job rejected", .warning)
            }
        }
    }

    private var settlement: Settlement? { if case .settled(let settlement) = self { settlement } else { nil } }

    var failure: Failure? {
        switch settlement {
        case .failed(let failure, _, _), .retry(_, let failure), .retryAfterProgress(_, let failure): failure
        default: nil
        }
    }

    var delay: Duration? {
        switch settlement {
        case .retry(let delay, _), .retryAfterProgress(let delay, _), .parked(let delay, _): delay
        default: nil
        }
    }

    var why: String? {
        switch settlement {
        case .released(let why): why
        case .parked(_, let reason), .rejected(let reason, _): reason
        default: nil
        }
    }

    private var completed: CompletedFile? { if case .completed(let file, _, _) = settlement { file } else { nil } }

    var file: String? { completed?.file }
    var bytes: Int64? {
        if case .responded(let response, _, _) = settlement { response.bytes } else { completed?.bytes }
    }
}
