package import HaulContract
package import HaulHTTP
import HaulStorage

/// One run of one job, as an activity gets it: values only. Its calls during the run are in `RunIO`.
package struct Assignment: Sendable {
    package let job: Job
    /// The token of the claim. It names the run and is its fencing token.
    package let token: String
    /// sha1 of the queue and the job's id, 40 hexadecimal digits.
    package let key: String
    /// The job's id and the name of its queue; empty for a job of no queue.
    package var (id, queue) = ("", "")
    package var resume: ResumePoint?
    package var completed: CompletedFile?
    /// The server's response when the job was completed before.
    package var storedResponse: StoredResponse?
    /// The job had failed when it was pushed: what its earlier runs have left is of another push.
    package var isPushedAgain = false
    /// `resume` is what the last attempt of this process has left, so that nothing was sent after it.
    package var isResumeExact = false
    /// An earlier run may have sent the request already.
    package var wasSent = false
    /// It is certain that the job has had no earlier run.
    package var isNew = false
    /// The download log of `haul get` proves that no earlier run has left a partial file.
    package var hasNoLeftovers = false
    /// The last run has completed the job, so no earlier run can still be active.
    package var isSettled = false
    /// Redis' clock. Times that other workers have recorded are compared with it.
    package let clock: SharedClock
    /// The operator allows jobs to replace files that are not theirs.
    package var mayOverwrite = true
    /// Rate limits that the job shares with other jobs, besides the worker's own limit.
    package var limits: [TokenBucket] = []
    /// Rate limits of the hosts that the job uses.
    package var hostBuckets: HostBuckets?
    /// Examines a file that is already at the target although no record mentions it. nil if the caller does not need
    /// that.
    package var existing: (any ExistingFile)?
    /// The cookies with which each chain of redirects starts.
    package var cookies = CookieJar()

    /// A Metalink ends the download before its body as `wrong_content_type`, because the caller reads it otherwise.
    package var refusesMetalinks = false

    package init(job: Job, token: String, key: String, clock: SharedClock) {
        (self.job, self.token, self.key, self.clock) = (job, token, key, clock)
    }

    /// The job and the run, as the store needs them.
    func file(under lease: RunLease) -> FileRequest {
        var request = FileRequest(
            key: key, runToken: token, isNew: isNew, path: job.path, ifExists: job.ifExists, completed: completed,
            lease: lease)
        request.hasNoLeftovers = hasNoLeftovers
        request.mayOverwrite = mayOverwrite
        return request
    }
}
