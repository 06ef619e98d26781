package import HaulContract

/// What a store has to know of a job and of its run to keep the job's file.
package struct FileRequest: Sendable {
    /// Names the job's partial files: 40 hexadecimal digits, another one for each job of each queue.
    package let key: String
    /// The token of the run.
    package let run: String
    /// No run of the job can have been before.
    package let isNew: Bool
    /// Where the file is wanted; a directory if it ends with "/".
    package let path: String?
    /// What becomes of a file that has the name already.
    package let ifExists: Job.IfExists
    /// What the job has finished before.
    package let completed: CompletedFile?
    package let lease: RunLease

    package init(
        key: String, run: String, isNew: Bool, path: String?, ifExists: Job.IfExists, completed: CompletedFile?,
        lease: RunLease
    ) {
        (self.key, self.run, self.isNew, self.path) = (key, run, isNew, path)
        (self.ifExists, self.completed, self.lease) = (ifExists, completed, lease)
    }

    /// The job gives the file's name; one that we chose may be changed.
    package var givesName: Bool { path.map { !$0.isEmpty && $0.utf8.last != UInt8(ascii: "/") } ?? false }
}

/// Whether a run may still give its file a name.
package struct RunLease: Sendable {
    /// The lease certainly stands, by our own clock.
    package let isHeld: @Sendable () -> Bool
    /// Asks Redis, where our own clock cannot tell. False: another run has the job.
    package let confirm: @Sendable () async -> Bool

    package init(isHeld: @escaping @Sendable () -> Bool, confirm: @escaping @Sendable () async -> Bool) {
        (self.isHeld, self.confirm) = (isHeld, confirm)
    }
}
