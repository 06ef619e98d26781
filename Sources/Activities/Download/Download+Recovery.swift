import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

// What earlier runs have left: a finished file, or a partial one.
extension Download {
    /// The outcome if this job finished its file before, and the server still has the same version. nil otherwise.
    func reuse() async throws(TransferError) -> ActivityOutcome? {
        guard let completed = assignment.completed, resume == nil, file(of: nil).isTarget(completed.file),
            file(of: nil).isReplaced(completed.file, suggested: mirrors[0].address.flatMap(nameFromURL))
        else { return nil }
        let age = Duration.milliseconds(assignment.clock.milliseconds - completed.validated)
        let proof = reusePolicy.proof(for: completed, age: age)
        guard proof != .impossible,
            let held = try await context.store.held(completed, for: file(of: nil), fencing: !assignment.isSettled)
        else { return nil }
        // From here on the run holds the proof that the file is the job's own, however the run ends.
        state.withLock { $0.proof = held.proof }
        var result = completed
        if proof == .nothing { return .completed(result, seconds: 0, unchanged: true) }
        guard try await isUnchanged(completed.entity) else {
            io.trace?("the file was downloaded before, but has changed on the server since then")
            return nil
        }
        result.validated = assignment.clock.milliseconds
        return .completed(result, seconds: 0, unchanged: true)
    }

    /// Asks the server whether it still has this version. If it fails and there is another mirror, the file counts as
    /// changed, and is fetched from there.
    func isUnchanged(_ entity: Entity) async throws(TransferError) -> Bool {
        let host = mirrors[mirrors.current].host
        guard await enter(host) else { throw .cancelled }
        defer { context.hosts.leave(host) }
        do { return try await hasVersion(entity) } catch {
            guard case .failed(let failure) = error else { throw error }
            backOff(host, after: failure)
            guard !Task.isCancelled, let why = dropMirror(after: failure) else { throw error }
            io.report(.warning(why))
            return false
        }
    }

    /// Some servers repeat the ETag of a file that has changed. So if a 304 to the ETag has no Last-Modified, a second
    /// request asks by the date. The ETag of an object is one of its bytes. So a 304 to a strong one is proof, and the
    /// date may be that of an upload of the same bytes.
    private func hasVersion(_ entity: Entity) async throws(TransferError) -> Bool {
        var requests = Self.conditions(entity).map { [$0] }
        // The head of a response without a condition repeats the digest.
        if requests.isEmpty, entity.digest != nil { requests = [[]] }
        for conditions in requests {
            let (transfer, finalURL) = try await follower.send(
                mirrors[mirrors.current], conditions + [.identity])
            defer { transfer.cancel() }
            let expectation = ResponseExpectation(kind: .changed(entity), isProven: false, resource: finalURL.resource)
            switch expectation.decision(on: transfer.head) {
            case .unchanged where finalURL.resource != entity.resource || conditions.isEmpty: return false
            case .unchanged:
                if transfer.head.hasUnusableValidators { return false }
                if finalURL.url.isObject, entity.strongETag != nil { return true }
                guard let modified = transfer.head.headers["last-modified"] else { continue }
                return !entity.isModified(modified)
            case .takeWhole(let found, _): return found.isSame(as: entity)
            case .fail(let failure): throw .failed(failure)
            default: return false
            }
        }
        return !requests.isEmpty
    }

    /// A weak date alone gives no condition. The server would confirm it for a later version of the same second, too.
    private static func conditions(_ entity: Entity) -> [HeaderField] {
        guard entity.etag != nil || entity.lastModifiedIsStrong else { return [] }
        return [
            entity.etag.map { HeaderField("If-None-Match", $0) },
            entity.lastModified.map { HeaderField("If-Modified-Since", $0) },
        ].compactMap(\.self)
    }

    /// Opens the partial file of an earlier run, if this run can continue it.
    func recover() async throws(TransferError) -> Step {
        guard var resume, resume.store == context.store.id else { return .begin }
        // A new push of a failed job may put the file elsewhere. Then nothing that earlier runs left is of use.
        let request = file(of: resume.entity)
        if !request.isTarget(resume.file) { resume.generation = "" }
        switch try await context.store.resume(request, from: resume) {
        case .nothing: return .begin
        case .placed(let file):
            state.withLock { $0.hasPlaced = true }
            guard let proven = try await proven(file, of: resume) else {
                io.trace?(
                    "a file that an earlier run has named is replaced, because nothing proves that it is this push's")
                return .begin
            }
            return .finished(.completed(record(proven, of: resume), seconds: 0, unchanged: false))
        case .partial(let partial): return try await continueDownload(with: partial, from: resume)
        }
    }

    /// The file, if it is this push's result. nil if nothing proves that.
    private func proven(_ file: StoredFile, of resume: ResumePoint) async throws(TransferError) -> StoredFile? {
        switch reusePolicy.proof(for: file, of: resume) {
        case .nothing: return file
        case .server: return try await isUnchanged(resume.entity) ? file : nil
        case .digest(let checksum):
            guard try await context.store.digest(of: file, checksum.algorithm) == checksum.digest else { return nil }
            return StoredFile(
                file: file.file, bytes: file.bytes, identity: file.identity, modified: file.modified,
                checksum: checksum.description)
        case .impossible: return nil
        }
    }

    private func continueDownload(with partial: any Partial, from resume: ResumePoint) async throws(TransferError)
        -> Step
    {
        // The store may have fewer bytes than the resume point names, or more.
        let (policy, count) = (reusePolicy, partial.written.count)
        guard policy.mayJoin(resume, count: count), let total = resume.entity.total else {
            io.trace?(
                "the partial file of an earlier run cannot be continued, because nothing proves that it is of the same version"
            )
            return .begin
        }
        // The validators of another URL say nothing about this job's entity.
        let isOurs = policy.origin(of: resume) != .other
        let generation = Generation(
            partial: partial, entity: resume.entity, source: resume.source, sourceResource: resume.sourceResource,
            contentType: resume.contentType, finalURL: resume.finalURL, isMixed: resume.isMixed, inherited: count)
        state.withLock { state in
            state.generation = generation
            if isOurs { state.mirrors.record(resume.entity, finalURL: resume.finalURL, assignment.cookies) }
        }
        // The partial file may have lost its reserved space, or never had any.
        try await partial.reserve(total)
        io.report(.resumed(offset: count, total: total))
        io.trace?(resume.entity.validatorSummary(isResumable: true))
        return .fetchMissing
    }
}
