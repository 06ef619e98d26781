package import HaulContract
package import HaulHTTP

/// Where finished files go, and what is there yet of others: the seam between activities and whatever keeps the bytes.
///
/// All workers that can reach a store share it. No call blocks the caller's thread.
package protocol Store: Sendable {
    /// Names it in resume points: offsets count only on the store that holds the bytes.
    var id: String { get }

    /// What an operator calls it.
    var name: String { get }

    /// What a job waits for while no job can be done here: one word.
    var waitsFor: String { get }

    /// Why no job can be done here now, whatever it is; nil if nothing is wrong.
    func trouble() async -> String?

    /// A new generation of a job's partial file. Nothing is made before it is opened or put.
    ///
    /// - Parameter suggested: The file's name, unless the job gives one.
    func begin(_ request: FileRequest, generation: String, suggested: String) -> any Partial

    /// What earlier runs of the job have left. What they are still about to do is fenced first.
    ///
    /// - Parameter resume: The generation that is wanted. Whatever else is left of the job goes.
    func resume(_ request: FileRequest, from resume: ResumePoint) async throws(TransferError) -> Remains

    /// The file that the job finished before; nil if it is not there any more as it was.
    ///
    /// - Parameter fencing: Earlier runs may still be at work beside it, and are fenced.
    func held(_ file: CompletedFile, for request: FileRequest, fencing: Bool) async -> HeldFile?

    /// Whether files of it can be sent: `source`.
    var givesFiles: Bool { get }

    /// A finished file, to be sent.
    ///
    /// - Throws: `source_missing`; `path_forbidden` if a link leads out of the store; `permission`; `bad_job` if it is no file.
    func source(_ path: String) async throws(TransferError) -> any SourceFile

    // MARK: What no run holds

    /// Removes the partial file of a job that will not go on, and what proves that it has its final name.
    func discard(_ place: PartialPlace) async

    /// The same, but not one that has its final name already, unheard of: it proves that the file there is the job's own.
    func discardUnplaced(_ places: [PartialPlace]) async

    /// Deletes a finished file, if it still is the one with this identity: not one that was written to since, nor another one.
    func delete(_ file: String, _ identity: FinishedIdentity) async

    /// The partial files that nobody has written to for `age` seconds. Looks at all of the store.
    func leftovers(olderThan age: Int64) async -> [Leftover]

    /// Removes those that nobody has written to since they were found, and returns them.
    func remove(_ leftovers: [Leftover]) async -> [Leftover]

    /// Does what was put off until it costs little. To be called every second.
    func runChores() async
}

extension Store {
    package var waitsFor: String { "disk" }
    package var givesFiles: Bool { false }
    package func source(_ path: String) async throws(TransferError) -> any SourceFile {
        throw TransferError(.badJob, "no file of \(name) can be sent")
    }
}

/// What earlier runs of a job have left in a store.
package enum Remains: Sendable {
    case nothing
    /// Finished and named by a run that nobody heard of.
    case placed(StoredFile)
    /// All that the resume point tells of is there.
    case partial(any Partial)
}

/// A finished file that is still as it was.
package struct HeldFile: Sendable {
    /// What proves that it is the job's own: an earlier run left it, and it was taken over. It goes with this run's end.
    package let proof: PartialPlace?

    package init(proof: PartialPlace? = nil) { self.proof = proof }
}
