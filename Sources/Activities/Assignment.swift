package import HaulContract
package import HaulHTTP
package import HaulStorage

/// One run of one job, as a worker hands it to an activity.
package struct Assignment: Sendable {
    package let job: Job
    /// The claim's: it names the run, and fences earlier ones.
    package let token: String
    /// sha1 of the queue and the job's id, 40 hexadecimal digits.
    package let key: String
    package var resume: ResumePoint?
    package var completed: CompletedFile?
    /// What a server answered when the job was completed before.
    package var answered: StoredResponse?
    /// An earlier run may have sent the request.
    package var wasSent = false
    /// Tells that the request is about to be sent, so that no other run sends it. False: this run may not.
    package var markSent: (@Sendable () async -> Bool)?
    /// No run of the job can have been before.
    package var isNew = false
    /// The last run completed the job, so that none can be at work.
    package var isSettled = false
    /// Redis' clock: the times that other workers have noted are compared with it.
    package let clock: SharedClock
    package let lease: RunLease
    /// Called when the run begins to wait for its host, and when it goes on.
    package var workChanged: (@Sendable () async -> Void)?
    /// Called when the file is durable under its name, with how long its last byte has waited for that.
    package var committed: (@Sendable (Duration) -> Void)?
    package let report: @Sendable (ActivityEvent) -> Void
    /// What the job shares with others besides the worker's own limit.
    package var limits: [TokenBucket] = []
    /// Limits of the hosts that it has to do with.
    package var hostBuckets: HostBuckets?
    /// What is to be found out about a file that no record tells of; nil: nothing.
    package var existing: (any ExistingFile)?
    /// What requests have to begin with.
    package var cookies = CookieJar()
    /// Told of each decision in words without secrets; nil where nobody listens.
    package var trace: (@Sendable (String) -> Void)?

    package init(
        job: Job, token: String, key: String, clock: SharedClock, lease: RunLease,
        report: @escaping @Sendable (ActivityEvent) -> Void
    ) {
        (self.job, self.token, self.key, self.clock) = (job, token, key, clock)
        (self.lease, self.report) = (lease, report)
    }

    /// What the store has to know of it.
    var file: FileRequest {
        FileRequest(
            key: key, run: token, isNew: isNew, path: job.path, ifExists: job.ifExists, completed: completed,
            lease: lease)
    }
}
