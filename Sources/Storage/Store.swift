package import HaulContract
package import HaulHTTP

/// Where finished files go and partial files are kept: the protocol between activities and whatever keeps the bytes. It
/// is all that an attempt needs.
///
/// All workers that can reach a store share it. No call blocks the caller's thread.
package protocol Store: Sendable {
    /// Identifies the store in resume points: offsets are only valid for the store that holds the bytes.
    var id: String { get }

    /// The store's name for the operator.
    var name: String { get }

    /// One word for what a job waits for while this store can take no job.
    var waitsFor: String { get }

    /// Why this store can take no job now, whatever the job is; nil if nothing is wrong.
    func fault() async -> String?

    /// A new generation of a job's partial file. Nothing is created before it is opened or put.
    ///
    /// - Parameter suggested: The file's name, unless the job gives one.
    func begin(_ request: FileRequest, generation: String, suggested: String) -> any Partial

    /// What earlier runs of the job have left. Those runs are fenced first, so that they change nothing any more.
    ///
    /// - Parameter resume: The generation to continue. Everything else of the job is removed.
    func resume(_ request: FileRequest, from resume: ResumePoint) async throws(TransferError) -> Remainder

    /// The file that the job finished before; nil if it is gone or has changed.
    ///
    /// - Parameter fencing: Earlier runs may still be working beside it, and are fenced.
    /// - Throws: Why it is unknown whether the file is there, or `.cancelled` if another run has the job.
    func held(
        _ file: CompletedFile, for request: FileRequest, fencing: Bool
    ) async throws(TransferError) -> HeldFile?

    /// The digest of a file that `resume` has found, in hexadecimal digits. nil if the file is gone or has changed.
    func digest(
        of file: StoredFile, _ algorithm: Job.Checksum.Algorithm
    ) async throws(TransferError) -> String?

    /// Removes the partial file of a job that will not continue, and the proof that it has its final name. The finished
    /// file stays.
    func discard(_ location: PartialLocation) async
}

/// A store that keeps files when no attempt runs, so that those that no job needs have to be removed.
package protocol DurableStore: Store {
    /// Whether only the partial file, which is a second link, proves that a finished file is its job's own.
    var provesByLinks: Bool { get }

    /// Does the same, but keeps files that already have their final name although Redis does not know: they prove that
    /// the finished file is the job's own.
    func discardUnplaced(_ locations: [PartialLocation]) async

    /// Deletes the finished file that a request of an earlier run may still make, if such a request is recorded. To be
    /// called before the partial file of a job that is cancelled or removed is discarded, and never for a job that may be
    /// completed.
    func withdrawUnanswered(_ location: PartialLocation) async

    /// Deletes the finished file of a generation, unless it is `completed`. To be called by a run that has lost its
    /// lease, once its job is cancelled or completed: the run may have named the file after that.
    func withdraw(_ location: PartialLocation, unless completed: FinishedIdentity?) async

    /// Deletes a finished file if it still has this identity: not if it was written to since, and not another file.
    ///
    /// - Returns: Whether no such file is left. False if the store could not be asked, or has refused: then the file may
    ///   still be there, and the call is to be repeated.
    @discardableResult
    func delete(_ file: String, _ identity: FinishedIdentity) async -> Bool

    /// Does the same as `discard` for several files, at little cost for each.
    func discard(_ locations: [PartialLocation]) async

    /// The partial files that were not written to for `age` seconds. Searches the whole store.
    func leftovers(olderThan age: Int64) async -> [Leftover]

    /// Removes those that were not written to since they were found, and returns them.
    func remove(_ leftovers: [Leftover]) async -> [Leftover]

    /// Does the work that was deferred until it costs little. To be called every second.
    func runDeferredWork() async
}

extension Store {
    package var waitsFor: String { "disk" }
}

extension DurableStore {
    package var provesByLinks: Bool { false }

    /// Nothing: in a directory, no name is given late.
    package func withdrawUnanswered(_ location: PartialLocation) async {}

    /// Nothing: in a directory, a run that has lost its lease gives no name.
    package func withdraw(_ location: PartialLocation, unless completed: FinishedIdentity?) async {}

    package func discard(_ locations: [PartialLocation]) async { for location in locations { await discard(location) } }
}

/// What earlier runs of a job have left in a store.
package enum Remainder: Sendable {
    case nothing
    /// A run finished and named the file, but Redis does not know.
    case placed(StoredFile)
    /// Everything that the resume point promises is there.
    case partial(any Partial)
}

/// A finished file that has not changed.
package struct HeldFile: Sendable {
    /// Proves that the file is the job's own: an earlier run left the proof, and this run took it over. It is removed
    /// when this run ends.
    package let proof: PartialLocation?

    package init(proof: PartialLocation? = nil) { self.proof = proof }
}
