package import HaulContract
import HaulRedis

/// How a run ended.
package enum Settlement: Sendable {
    case completed(CompletedFile, seconds: Double, unchanged: Bool)
    /// A server's response has completed the job.
    case responded(StoredResponse, seconds: Double, unchanged: Bool)
    case failed(Failure, retryable: Bool, received: Int64)
    case cancelled
    case paused
    /// Another attempt after `delay`.
    case retry(after: Duration, Failure)
    /// The same for a run that made progress: the attempt is not counted, and earlier ones are forgotten.
    case retryAfterProgress(after: Duration, Failure)
    /// The job waits, without a slot, until its store can be written again.
    case parked(after: Duration, reason: String)
    /// The job goes back to the front of the queue. No attempt is counted.
    case released(why: String)
    /// This worker cannot read what was pushed. The job becomes what it was before the push. `before` is
    /// `Claim.before`.
    case rejected(reason: String, before: [UInt8] = [])

    /// The maximum bytes of a response in a published event, and in an event that is made from a job's hash after its
    /// end. To copy and quote more would occupy Redis.
    static let maxPublished = 16 << 10
    /// The maximum bytes of an event with a response in the queue's stream of events. A larger one has no response there.
    static let maxLogged = 4 << 10
    /// The maximum bytes of responses in all replies about one end of a job.
    static let maxReplies = 2 << 20

    /// Whether the run's partial file has no further use.
    package var isLast: Bool {
        switch self {
        case .completed, .responded, .cancelled: true
        default: false
        }
    }

    package var isCompleted: Bool {
        switch self {
        case .completed, .responded: true
        default: false
        }
    }

    /// Whether the run has ended its job. Otherwise Redis cancels the job, or puts it back.
    package var endsJob: Bool {
        if case .failed = self { true } else { isCompleted }
    }

    /// After which time the job is to run again; nil if it has ended, or waits for nothing but its turn.
    package var delay: Duration? {
        switch self {
        case .retry(let delay, _), .retryAfterProgress(let delay, _), .parked(let delay, _): delay
        default: nil
        }
    }

    /// Why the run did not complete its job; nil if it completed the job, or was stopped.
    package var failure: Failure? {
        switch self {
        case .failed(let failure, _, _), .retry(_, let failure), .retryAfterProgress(_, let failure): failure
        default: nil
        }
    }

    var outcome: String {
        switch self {
        case .completed, .responded: "completed"
        case .failed: "failed"
        case .cancelled: "cancelled"
        case .paused: "paused"
        case .retry: "retry"
        case .retryAfterProgress: "carry-on"
        case .parked: "parked"
        case .released: "released"
        case .rejected: "rejected"
        }
    }

    var argument: String {
        switch self {
        case .retry(let delay, let failure), .retryAfterProgress(let delay, let failure):
            String(delay.milliseconds) + (failure.asksForPause ? " asked \(failure.mirror ?? "")" : "")
        case .parked(let delay, let reason): "\(delay.milliseconds) \(reason)"
        case .released(let why): why
        case .rejected(let reason, _): reason
        default: ""
        }
    }

    /// The event of this settlement.
    var announcement: Announcement {
        switch self {
        case .completed(let file, let seconds, let unchanged):
            Announcement(outcome) { event in
                event.set("file", file.file)
                event.set("bytes", file.bytes)
                event.set("seconds", seconds)
                event.set("checksum", file.checksum)
                event.set("etag", file.entity.etag)
                if unchanged { event.set("unchanged", true) }
            }
        case .responded(let response, let seconds, let unchanged):
            Announcement(outcome) { event in
                event.set("bytes", response.bytes)
                event.set("seconds", seconds)
                event.set("etag", response.validator("etag").nonEmpty)
                if unchanged { event.set("unchanged", true) }
                event.set(response)
            }
        case .failed(let failure, let retryable, let received):
            Announcement(outcome) { event in
                event.set(failure)
                event.set("retryable", retryable)
                event.set("received", received)
            }
        case .retry(let delay, let failure), .retryAfterProgress(let delay, let failure):
            Announcement("retrying") { event in
                event.set(failure)
                event.set("delay", delay.secondsValue)
            }
        case .parked(_, let reason): Announcement("waiting") { $0.set("why", reason) }
        case .cancelled, .paused, .released, .rejected: Announcement(outcome)
        }
    }

    /// Fields of the job's hash that describe how the run ended.
    var fields: [(String, String)] {
        switch self {
        case .completed(let file, let seconds, let unchanged):
            file.fields + [("error", ""), ("message", ""), ("seconds", "\(seconds)")]
                + (unchanged ? [("unchanged", "1")] : [])
        case .responded(let response, let seconds, let unchanged):
            response.fields
                + [
                    ("error", ""), ("message", ""), ("sent", ""), ("generation", ""), ("store_state", ""),
                    ("seconds", "\(seconds)"),
                ]
                + (unchanged ? [("unchanged", "1")] : [])
        case .failed(let failure, let retryable, _):
            [
                ("error", failure.code.rawValue), ("message", failure.message), ("retryable", retryable ? "1" : "0"),
            ]
        case .retry(_, let failure), .retryAfterProgress(_, let failure):
            [("error", failure.code.rawValue), ("message", failure.message)]
        default: []
        }
    }
}

/// The end of a run, as a settle reports it.
package struct RunEnd: Sendable {
    package let run: Run
    package let settlement: Settlement
    let report: RunReport
    /// The job's hash has no fields of an earlier run, so empty fields need not be written.
    let isFresh: Bool
    /// The event `completed` waits until replicas have the job: `Queue.announceReplicated`.
    let awaitsReplicas: Bool
    /// The response to a request that failed.
    let response: StoredResponse?
    /// The job's hash has the response of an earlier run, which must go because this run failed without one.
    let isResponseStale: Bool
    /// What is pushed in the same call.
    let steps: NextSteps

    package init(
        _ run: Run, _ settlement: Settlement, _ report: RunReport = RunReport(), isFresh: Bool = false,
        awaitsReplicas: Bool = false, response: StoredResponse? = nil, hadResponse: Bool = false,
        steps: NextSteps = .none
    ) {
        (self.run, self.settlement, self.report, self.isFresh) = (run, settlement, report, isFresh)
        self.steps = steps
        let isFailed = if case .failed = settlement { true } else { false }
        self.response = isFailed ? response : nil
        isResponseStale = isFailed && response == nil && hadResponse
        self.awaitsReplicas = awaitsReplicas && settlement.isCompleted
    }

    /// About how many bytes the response and the steps add to the arguments of the call; 0 without them.
    package var estimatedBytes: Int {
        if case .rejected(_, let before) = settlement { return before.count }
        if case .responded(let response, _, _) = settlement { return 4 * response.body.count + 4 * steps.bytes }
        return 4 * (response?.body.count ?? 0) + 4 * steps.bytes
    }

    /// The arguments that Lua/settle/settles.lua reads.
    var arguments: [any RedisArgument] {
        var report = report
        report.fields += isFresh ? settlement.fields.filter { !$0.1.isEmpty } : settlement.fields
        report.fields += response?.fields ?? (isResponseStale ? StoredResponse.noFields : [])
        report.fields += steps.fields
        let argument = awaitsReplicas ? "replicas" : settlement.argument
        var members: any RedisArgument = settlement.announcement.members
        if let response {
            members = settlement.announcement.members + Announcement("failed") { $0.set(response) }.members
        }
        if case .rejected(_, let before) = settlement { members = before }
        return [run.id, run.token, settlement.outcome, argument, members] + report.arguments + [steps.elements.count]
            + steps.elements
    }
}

extension JSONObject {
    fileprivate mutating func set(_ response: StoredResponse) {
        set("status", response.status)
        set("headers", json: response.headersText)
        if let text = response.text { set("body", text) } else { set("body_base64", Base64.encode(response.body)) }
        set("files", json: response.files)
    }

    fileprivate mutating func set(_ failure: Failure) {
        set("error", failure.code.rawValue)
        set("message", failure.message)
    }
}

extension Failure {
    /// Whether the host asked to back off. Then no worker of the fleet starts a job for it for a while.
    fileprivate var asksForPause: Bool { code == .http(429) || code == .http(503) && retryAfter != nil }
}
