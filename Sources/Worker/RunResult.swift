import HaulBus
import HaulContract
import Logging

/// How a run ended, for the log and the metrics.
enum RunResult {
    /// Redis has the settle.
    case settled(Settlement)
    /// Another worker has the job.
    case fenced
    /// The grace time was over before Redis had the settle.
    case unsettled

    /// The value of the metric's label `result`: docs/operate/metrics.md.
    var name: String {
        switch self {
        case .fenced: "fenced"
        case .unsettled: "unsettled"
        case .settled(let settlement):
            switch settlement {
            case .completed(_, _, let unchanged), .responded(_, _, let unchanged): unchanged ? "unchanged" : "completed"
            case .failed: "failed"
            case .cancelled: "cancelled"
            case .paused: "paused"
            case .retry: "retried"
            case .retryAfterProgress: "continued"
            case .parked: "waiting"
            case .released: "released"
            case .rejected: "rejected"
            }
        }
    }

    var message: Logger.Message {
        switch self {
        case .fenced: "run ended: it was fenced"
        case .unsettled: "not settled within the grace time: it runs again elsewhere"
        case .settled(let settlement):
            switch settlement {
            case .completed(_, _, let unchanged): unchanged ? "job completed: its file is unchanged" : "job completed"
            case .responded(_, _, let unchanged):
                unchanged ? "job completed: its response is unchanged" : "job completed"
            case .failed: "job failed"
            case .cancelled: "job cancelled"
            case .paused: "job paused"
            case .retry, .retryAfterProgress: "job is tried again"
            case .parked: "job waits for the store"
            case .released: "job returned to the queue"
            case .rejected: "job rejected"
            }
        }
    }

    var level: Logger.Level {
        switch self {
        case .fenced: .debug
        case .unsettled: .warning
        case .settled(let settlement):
            switch settlement {
            case .completed, .responded, .cancelled, .paused, .released: .info
            case .retry, .retryAfterProgress, .parked: .notice
            case .failed, .rejected: .warning
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
