package import HaulContract
import HaulRedis

/// A run of a job: the token fences it off from every other run.
package struct Run: Sendable, Hashable {
    package let id: String
    package let token: String
    package init(id: String, token: String) { (self.id, self.token) = (id, token) }
}

/// A job that this worker has taken, with all that is needed to go on where others left off.
package struct Claim: Sendable {
    package let run: Run
    /// The element as the producer wrote it.
    package let spec: [UInt8]
    /// A newer push of the unfinished job, whose URLs and headers take the place of the first one's.
    package let renewal: [UInt8]?
    /// nil for a job that was not known before.
    package let previous: JobState?
    package let clock: SharedClock
    /// Failed attempts so far.
    package let attempt: Int
    /// An earlier run was lost with its worker: before this one does anything, Redis is to hear that it has begun.
    package let wasLost: Bool
    /// Unix ms by which it must be done.
    package let deadline: Int64?
    package let resume: ResumePoint?
    package let completed: CompletedFile?
    /// What a server answered when the job was completed before.
    package let answered: StoredResponse?
    /// An earlier run was answered, whether the response is still kept or not.
    package let hasResponse: Bool
    /// An earlier run has sent the request, or was about to, and nobody knows what came of it.
    package let wasSent: Bool
    /// To be deleted before anything else.
    package let doomed: DoomedFile?
    /// The fleet counts the connections to the job's host: the job may have one.
    package let isLimited: Bool
    /// The queue's defaults: fields and their values as JSON.
    package let defaults: [(name: String, text: String)]
    /// What the job was before, as Redis wants it back if this worker cannot read what was pushed.
    package let before: [UInt8]

    /// As Lua/claim.lua names it.
    init?(_ reply: [String: RedisValue]) {
        guard let id = reply["id"]?.string, let token = reply["token"]?.string, let spec = reply["spec"]?.bytes else {
            return nil
        }
        run = Run(id: id, token: token)
        self.spec = spec
        renewal = reply["renewed"]?.bytes
        previous = reply["previous"]?.string.flatMap(JobState.init)
        clock = SharedClock(told: Int64(reply["now"]?.int ?? 0))
        let hash = reply["hash"]?.dictionary ?? [:]
        attempt = min(max(Int(hash["attempt"] ?? "") ?? 0, 0), Int(Int32.max))
        wasLost = hash["crashes"] != nil
        deadline = hash["deadline_at"].flatMap { Int64($0) }
        resume = ResumePoint(hash: hash, offsets: reply["offsets"]?.dictionary ?? [:])
        completed = CompletedFile(hash: hash)
        answered = StoredResponse(hash: hash)
        hasResponse = hash["status"]?.isEmpty == false
        wasSent = hash["sent"].map { !$0.isEmpty } ?? false
        doomed = hash["doomed"].flatMap(DoomedFile.init)
        before = reply["before"]?.bytes ?? []
        isLimited = reply["is_limited"] != nil
        defaults = (reply["defaults"]?.dictionary ?? [:]).sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// What is to be done: the job as it was pushed, with the URLs and headers of its newest push. `check` refuses what this worker
    /// cannot read. Where that is the newest push of a job that was in line, the job goes on without it, and `refused` says why.
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
                    throw Job.Invalid(field: "kind", reason: "is not that of the job, which is \(job.kind.words)")
                }
                (job.urls, job.headers) = (newer.urls, newer.headers)
            } catch {
                guard before.isEmpty else { throw error }
                refused = error
            }
        }
        job.id = run.id
        if isLimited { job.connections = 1 }
        return (job, refused)
    }

    package func job() throws(Job.Invalid) -> Job { try read { _ in }.job }
}

/// What a worker that asked for a job was told.
package enum ClaimReply: Sendable {
    case job(Claim)
    case empty
    /// There is more than one call may take time for: ask again.
    case more
    /// The queue is paused: ask again when a tick says that it is open.
    case paused
    /// The queue is at `max_running`: a settle may ask again, others wait for a place.
    case full
    /// This worker is to take no more jobs: ask again when a tick says that it may.
    case quiet
    /// The worker has registered anew since it asked, or is not known: register, then ask again.
    case stale

    /// There is nothing to be had now.
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
            guard let claim = Claim(reply) else { throw RedisError(.reply, "the claim function answered with no job") }
            self = .job(claim)
        case "empty": self = .empty
        case "more": self = .more
        case "paused": self = .paused
        case "full": self = .full
        case "quiet": self = .quiet
        case "stale": self = .stale
        case let word: throw RedisError(.reply, "the claim function answered \(word ?? "nothing")")
        }
    }
}
