package import HaulContract

/// What a store needs to know about a job and its run to keep the job's file.
package struct FileRequest: Sendable {
    /// Names the job's partial files: 40 hexadecimal digits, unique to the job and its queue.
    package let key: String
    /// The fencing token of the run, which also names the files that the run makes.
    package let runToken: String
    /// According to Redis or the download log, no earlier run of the job has left anything but a finished file.
    package let isNew: Bool
    /// The path that the job gives; a directory if it ends with "/"; nil if the job gives none.
    package let path: String?
    /// The download log of `haul get` proves that no earlier run has left a partial file. Workers cannot be that
    /// certain: Redis may have lost its records of a run.
    package var hasNoLeftovers = false
    /// The job's own `if_exists`.
    private let requestedIfExists: Job.IfExists
    /// The operator allows jobs to replace files that are not theirs.
    package var mayOverwrite = true
    /// The file that the job finished before.
    package let completed: CompletedFile?
    package let lease: RunLease
    /// The whole file is going to be examined before it gets its name: by the operator's gate, or by a digest. So a store
    /// must not give the name by the same step that makes the file whole, however an earlier run has begun the file.
    package var isExamined = false

    package init(
        key: String, runToken: String, isNew: Bool, path: String?, ifExists: Job.IfExists, completed: CompletedFile?,
        lease: RunLease
    ) {
        (self.key, self.runToken, self.isNew, self.path) = (key, runToken, isNew, path)
        (requestedIfExists, self.completed, self.lease) = (ifExists, completed, lease)
    }

    /// What to do if a file with this name exists.
    package var ifExists: Job.IfExists { isOverwriteRefused ? .fail : requestedIfExists }

    private var isOverwriteRefused: Bool { requestedIfExists == .overwrite && !mayOverwrite }

    /// The failure of a job whose file cannot have the name `path`, because another file has it.
    package func conflict(at path: String) -> Failure {
        let (cause, choice) =
            isOverwriteRefused
            ? ("the operator of this worker lets no job replace it (--no-overwrite)", "if_exists rename")
            : ("is not this job's", "if_exists overwrite or rename")
        return Failure(
            .fileExists, "\(path) exists and \(cause): choose another path, or \(choice)")
    }

    /// Whether a number may be added to the name if another file has it.
    package var mayNumber: Bool { ifExists == .rename || ifExists == .reuse && !givesName }

    /// Whether the path `file` is where the job puts its file.
    package func isTarget(_ file: String) -> Bool {
        guard let path else { return true }
        // Compares bytes: Swift treats two encodings of an "é" as equal.
        let (wanted, found) = (path.pathParts.map { Array($0.utf8) }, file.pathParts.map { Array($0.utf8) })
        if !givesName { return found.dropLast().elementsEqual(wanted) }
        guard found.dropLast().elementsEqual(wanted.dropLast()), let name = file.pathParts.last else { return false }
        return found.last == wanted.last
            || ifExists == .rename && FileName.isNumbered(name, of: path.pathParts.last ?? "")
    }

    /// Whether the finished file at `file` may be the one that an overwrite replaces. A file that has got a number is
    /// not, but a name that the server has given may look the same: "Movie (2019).mkv".
    ///
    /// - Parameter suggested: The name that the URL gives.
    package func isReplaced(_ file: String, suggested: String?) -> Bool {
        guard !givesName, ifExists == .overwrite, let name = file.pathParts.last, FileName.hasNumber(name) else {
            return true
        }
        return suggested.map { name.utf8.elementsEqual($0.utf8) } ?? false
    }

    /// Whether the job gives the file's name. A name that we chose may be changed.
    package var givesName: Bool { path.map { !$0.isEmpty && $0.utf8.last != UInt8(ascii: "/") } ?? false }
}

/// Shows whether a run may still give its file the final name.
package struct RunLease: Sendable {
    /// Whether the lease is certainly valid, by our own clock.
    package let isHeld: @Sendable () -> Bool
    /// Asks Redis, for when our own clock does not suffice. False if another run has the job.
    package let confirm: @Sendable () async -> Bool
    /// Whether the run may write to its partial file now. Asked for each block, so it is to cost next to nothing.
    package let writePermit: @Sendable () -> WritePermit

    package init(
        isHeld: @escaping @Sendable () -> Bool, confirm: @escaping @Sendable () async -> Bool,
        writePermit: @escaping @Sendable () -> WritePermit = { .granted }
    ) {
        (self.isHeld, self.confirm, self.writePermit) = (isHeld, confirm, writePermit)
    }

    /// Whether the run has the job: by our own clock, or by what Redis says.
    package func holds() async -> Bool {
        if isHeld() { return true }
        return await confirm()
    }
}

/// Whether a run may write to its partial file. If another run has continued it, the file may have its final name.
package enum WritePermit: Sendable {
    case granted
    /// The lease may have ended while this process stood still. Redis is being asked.
    case unknown
    /// Another run has the job.
    case refused
}
