package import HaulContract
import HaulRedis

/// One run of a job. Redis refuses whatever is written under a token that is out of date.
package struct Run: Sendable, Hashable {
    package let id: String
    package let token: String
    package init(id: String, token: String) { (self.id, self.token) = (id, token) }
}

/// A job that this worker has claimed, with all that a run needs to continue where earlier runs stopped.
package struct Claim: Sendable {
    package let run: Run
    /// The element as it was pushed.
    package let spec: [UInt8]
    /// A newer push of the unfinished job. Its URLs and headers replace those of `spec`.
    package let renewal: [UInt8]?
    /// The state before the claim; nil for a job that was not known.
    package let previous: JobState?
    package let clock: SharedClock
    /// Failed attempts in a row.
    package let attempt: Int
    /// The attempts that failed so far, as the job's hash has them: `PastFailures`.
    package let failures: String?
    /// When the job was claimed, unix ms.
    package let started: Int64
    /// An earlier run was lost with its worker. This run reports that it has begun before it does anything else, so
    /// that a crash of this worker is counted against the job.
    package let wasLost: Bool
    /// No earlier run has left anything but a finished file: the job was not known, or it was removed without any lost run.
    package let isNew: Bool
    /// The bytes that earlier runs have left are of a push that failed before this one.
    package let isPushedAgain: Bool
    /// When the job must be done, unix ms; nil without a deadline.
    package let deadline: Int64?
    package let resume: ResumePoint?
    package let completed: CompletedFile?
    /// The response to an earlier run, of any status, if it is still kept.
    package let storedResponse: StoredResponse?
    /// An earlier run got a response, which may have been dropped since.
    package let hasResponse: Bool
    /// An earlier run has sent the request, or was about to send it, and its outcome is unknown.
    package let wasSent: Bool
    /// A file that the run must delete before anything else.
    package let pendingDeletion: PendingDeletion?
    /// The fleet counts connections to the job's host, so the job may have one.
    package let isLimited: Bool
    /// The operator's limits, which the job cannot lift.
    package let limits: RunLimits
    /// The queue's defaults: names of fields, and their values as JSON. Sorted by name.
    package let defaults: [(name: String, text: String)]
    /// The state of the job before the push, packed by Lua/claim/claims.lua; empty if the job was not known or was
    /// queued. It goes back to Redis in `Settlement.rejected`.
    package let before: [UInt8]

    /// Reads one entry of the reply that Lua/claim/claims.lua describes; nil if a member is missing.
    init?(_ reply: [String: RedisValue]) {
        guard let id = reply["id"]?.string, let token = reply["token"]?.string, let spec = reply["spec"]?.bytes else {
            return nil
        }
        run = Run(id: id, token: token)
        self.spec = spec
        renewal = reply["renewed"]?.bytes
        previous = reply["previous"]?.string.flatMap(JobState.init)
        started = Int64(reply["now"]?.int ?? 0)
        clock = SharedClock(serverTime: started)
        let hash = reply["hash"]?.dictionary ?? [:]
        attempt = min(max(Int(hash["attempt"] ?? "") ?? 0, 0), Int(Int32.max))
        failures = hash["failures"]
        wasLost = hash["crashes"] != nil
        isPushedAgain = hash["earlier"].nonEmpty.map { $0 == hash["generation"] } ?? false
        isNew = previous == nil && hash["lost"] == nil
        deadline = hash["deadline_at"].flatMap { Int64($0) }
        resume = ResumePoint(hash: hash, offsets: reply["offsets"]?.dictionary ?? [:])
        completed = CompletedFile(hash: hash)
        storedResponse = StoredResponse(hash: hash)
        hasResponse = hash["status"]?.isEmpty == false
        wasSent = hash["sent"].map { !$0.isEmpty } ?? false
        pendingDeletion = hash["pending_deletion"].flatMap(PendingDeletion.init)
        before = reply["before"]?.bytes ?? []
        isLimited = reply["is_limited"] != nil
        limits = RunLimits(reply["limits"]?.dictionary ?? [:])
        defaults = (reply["defaults"]?.dictionary ?? [:]).sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// The job as it was pushed, with the URLs and headers of its newest push.
    ///
    /// - Parameter check: Throws for a job that this worker cannot do.
    /// - Returns: `refused` says why the newest push is not used. It is set only if the job was queued: then it runs
    ///   without that push.
    /// - Throws: `Job.Invalid` if the job, or its newest push, cannot be read or is refused by `check`.
    package func read(
        _ check: (Job) throws(Job.Invalid) -> Void
    ) throws(Job.Invalid) -> (job: Job, refused: Job.Invalid?) {
        var job = try Job(element: spec, defaults: defaults)
        try check(job)
        var refused: Job.Invalid?
        if let renewal {
            do throws(Job.Invalid) {
                let newer = try Job(element: renewal, defaults: defaults)
                try check(newer)
                guard newer.kind == job.kind else {
                    throw Job.Invalid(
                        field: "kind", reason: "is not that of the job, which is \(job.kind.nameWithArticle)")
                }
                (job.urls, job.headers) = (newer.urls, newer.headers)
            } catch {
                guard before.isEmpty else { throw error }
                refused = error
            }
        }
        job.id = run.id
        if isLimited { job.connections = 1 }
        limits.restrict(&job)
        return (job, refused)
    }

    package func job() throws(Job.Invalid) -> Job { try read { _ in }.job }
}

/// The reply to one token of a claim.
package enum ClaimReply: Sendable {
    case job(Claim)
    /// No element waits. `dueIn`: the call has scheduled a job that is due after this time.
    case empty(dueIn: Duration? = nil)
    /// The call has handled as many elements as one call may. Claim again at once.
    case more
    /// The queue is paused. Claim again when a tick says that the queue is open.
    case paused
    /// The queue is at `max_running`, or has no start left. A settle may claim with it; otherwise wait for a permit.
    case full
    /// This worker claims no more jobs. Claim again when a tick says that it may.
    case quiet
    /// The worker has registered again since it sent the claim, or is not known. Register, then claim again.
    case stale

    /// No job can be claimed now.
    package var isEmpty: Bool {
        switch self {
        case .empty, .paused, .full, .quiet: true
        case .job, .more, .stale: false
        }
    }

    init(_ value: RedisValue) throws(RedisError) {
        let reply = try value.get().members
        switch reply["answer"]?.string {
        case "job":
            guard let claim = Claim(reply) else { throw RedisError(.reply, "the claim function returned no job") }
            self = .job(claim)
        case "empty":
            self = .empty(dueIn: reply["due_in"]?.string.flatMap { Int64($0) }.map { .milliseconds($0) })
        case "more": self = .more
        case "paused": self = .paused
        case "full": self = .full
        case "quiet": self = .quiet
        case "stale": self = .stale
        case let word: throw RedisError(.reply, "the claim function returned \(word ?? "nothing")")
        }
    }
}

/// The operator's limits of a run, which its job cannot lift: the stricter ones of the queue's settings and of its
/// host's limits when the job was claimed (Lua/limits/hosts.lua).
package struct RunLimits: Sendable, Equatable {
    /// The maximum duration of a run, in seconds.
    package let maxSeconds: Int64?
    /// Bytes per second below which a download is too slow.
    package let minSpeed: Int64?
    /// The maximum size of a file, in bytes.
    package let maxBytes: Int64?

    init(_ fields: [String: String]) {
        maxSeconds = fields[QueueSetting.maxSeconds.name].flatMap { Int64($0) }
        minSpeed = fields[QueueSetting.minSpeed.name].flatMap { Int64($0) }
        maxBytes = fields[QueueSetting.maxBytes.name].flatMap { Int64($0) }
    }

    /// Makes the job's own limits no looser than these.
    func restrict(_ job: inout Job) {
        guard job.kind == .download else { return }
        job.minSpeed = [job.minSpeed, minSpeed].compactMap(\.self).max()
        job.maxBytes = [job.maxBytes, maxBytes].compactMap(\.self).min()
    }
}
