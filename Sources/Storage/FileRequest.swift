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

    /// A number may be added to a name that is taken.
    package var mayNumber: Bool { ifExists == .rename || ifExists == .reuse && !givesName }

    /// Whether a file of this path is where the job wants it.
    package func wants(_ file: String) -> Bool {
        guard let path else { return true }
        // By bytes: to Swift two ways to write an "é" are one.
        let (wanted, found) = (path.pathParts.map { Array($0.utf8) }, file.pathParts.map { Array($0.utf8) })
        if !givesName { return found.dropLast().elementsEqual(wanted) }
        guard found.dropLast().elementsEqual(wanted.dropLast()), let name = file.pathParts.last else { return false }
        return found.last == wanted.last
            || ifExists == .rename && FileName.isNumbered(name, of: path.pathParts.last ?? "")
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
