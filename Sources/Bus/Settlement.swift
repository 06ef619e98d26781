package import HaulContract
import HaulRedis

/// How a run ended.
package enum Settlement: Sendable {
    case completed(CompletedFile, seconds: Double, unchanged: Bool)
    /// By a server's answer.
    case answered(StoredResponse, seconds: Double, unchanged: Bool)
    case failed(Failure, retryable: Bool, received: Int64)
    case cancelled
    case paused
    /// Another attempt after `delay`.
    case retry(after: Duration, Failure)
    /// The same of a run that brought the file forward: no attempt is counted, and those before are forgotten.
    case carryOn(after: Duration, Failure)
    /// Waits for room on the disk, holding no slot.
    case parked(after: Duration, reason: String)
    /// Back to the front of the line, uncounted.
    case released(why: String)
    /// The element was no valid job after all: the job is again what its claim says that it was before.
    case rejected(reason: String, before: [UInt8] = [])

    /// The partial file is of no use after it.
    package var isLast: Bool {
        switch self {
        case .completed, .answered, .cancelled: true
        default: false
        }
    }

    package var isCompleted: Bool {
        switch self {
        case .completed, .answered: true
        default: false
        }
    }

    var outcome: String {
        switch self {
        case .completed, .answered: "completed"
        case .failed: "failed"
        case .cancelled: "cancelled"
        case .paused: "paused"
        case .retry: "retry"
        case .carryOn: "carry-on"
        case .parked: "parked"
        case .released: "released"
        case .rejected: "rejected"
        }
    }

    var argument: String {
        switch self {
        case .retry(let delay, let failure), .carryOn(let delay, let failure):
            String(delay.milliseconds) + (failure.asksForPause ? " asked" : "")
        case .parked(let delay, _): String(delay.milliseconds)
        case .released(let why): why
        case .rejected(let reason, _): reason
        default: ""
        }
    }

    /// The members of the event that the settle publishes.
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
        case .answered(let response, let seconds, let unchanged):
            Announcement(outcome) { event in
                event.set("bytes", response.bytes)
                event.set("seconds", seconds)
                event.set("etag", response["etag"])
                if unchanged { event.set("unchanged", true) }
                event.set(response)
            }
        case .failed(let failure, let retryable, let received):
            Announcement(outcome) { event in
                event.set(failure)
                event.set("retryable", retryable)
                event.set("received", received)
            }
        case .retry(let delay, let failure), .carryOn(let delay, let failure):
            Announcement("retrying") { event in
                event.set(failure)
                event.set("delay", delay.secondsValue)
            }
        case .parked(_, let reason): Announcement("waiting") { $0.set("why", reason) }
        case .cancelled, .paused, .released, .rejected: Announcement(outcome)
        }
    }

    /// What is kept in the hash of how it ended.
    var fields: [(String, String)] {
        switch self {
        case .completed(let file, let seconds, let unchanged):
            file.fields + [("error", ""), ("message", ""), ("seconds", "\(seconds)")]
                + (unchanged ? [("unchanged", "1")] : [])
        case .answered(let response, let seconds, let unchanged):
            response.fields
                + [
                    ("error", ""), ("message", ""), ("sent", ""), ("generation", ""), ("journal", ""),
                    ("seconds", "\(seconds)"),
                ]
                + (unchanged ? [("unchanged", "1")] : [])
        case .failed(let failure, let retryable, _):
            [
                ("error", failure.code.rawValue), ("message", failure.message), ("retryable", retryable ? "1" : "0"),
            ]
        case .retry(_, let failure), .carryOn(_, let failure):
            [("error", failure.code.rawValue), ("message", failure.message)]
        default: []
        }
    }
}

/// What Redis is told of the end of a run.
package struct RunEnd: Sendable {
    package let run: Run
    package let settlement: Settlement
    let report: RunReport
    /// The job's hash has nothing of an earlier run: what is empty needs not be written.
    let isFresh: Bool
    /// That it is completed is not told before replicas have it: `Queue.tellReplicated`.
    let awaitsReplicas: Bool
    /// What a server answered to a request that failed.
    let response: StoredResponse?
    /// The job's hash has the response of an earlier run, which says nothing of how this one failed.
    let isResponseStale: Bool

    package init(
        _ run: Run, _ settlement: Settlement, _ report: RunReport = RunReport(), isFresh: Bool = false,
        awaitsReplicas: Bool = false, response: StoredResponse? = nil, hadResponse: Bool = false
    ) {
        (self.run, self.settlement, self.report, self.isFresh) = (run, settlement, report, isFresh)
        let isFailed = if case .failed = settlement { true } else { false }
        self.response = isFailed ? response : nil
        isResponseStale = isFailed && response == nil && hadResponse
        self.awaitsReplicas = awaitsReplicas && settlement.isCompleted
    }

    /// About how many bytes it brings that are none of a usual end's.
    package var weight: Int {
        if case .answered(let response, _, _) = settlement { return 4 * response.body.count }
        return 4 * (response?.body.count ?? 0)
    }

    /// As Lua/settle.lua reads them.
    var arguments: [any RedisArgument] {
        var report = report
        report.fields += isFresh ? settlement.fields.filter { !$0.1.isEmpty } : settlement.fields
        report.fields += response?.fields ?? (isResponseStale ? StoredResponse.noFields : [])
        let argument = awaitsReplicas ? "replicas" : settlement.argument
        var members: any RedisArgument = settlement.announcement.members
        if let response {
            members = settlement.announcement.members + Announcement("failed") { $0.set(response) }.members
        }
        if case .rejected(_, let before) = settlement { members = before }
        return [run.id, run.token, settlement.outcome, argument, members] + report.arguments
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
    /// The host wants nobody to ask it for a while, which all of the fleet's workers are to know.
    fileprivate var asksForPause: Bool { code == .http(429) || code == .http(503) && retryAfter != nil }
}
