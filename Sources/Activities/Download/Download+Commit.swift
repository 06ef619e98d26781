import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

// The commit: all bytes have arrived. They are checked and made durable, and the file gets its final name.
extension Download {
    /// Checks the whole file and gives it its final name.
    func commit(_ generation: Generation, _ total: Int64) async throws(TransferError) -> ActivityOutcome {
        if let error = generation.partial.error { throw error }
        try check(total)
        try await assignment.existing?.checkReplacement(
            by: generation.partial, of: generation.entity)
        let begun = ContinuousClock.now
        return end(try await generation.partial.commit(whole(total, generation)), of: generation, since: begun)
    }

    /// The same for a small file that is still in memory. Several of them may be committed as a group.
    func commit(_ generation: Generation, _ bytes: [UInt8]) async throws(TransferError) -> ActivityOutcome {
        let total = Int64(bytes.count)
        try check(total)
        let begun = ContinuousClock.now
        let outcome = try await generation.partial.put(bytes, whole(total, generation))
        await discardPredecessor()
        return end(outcome, of: generation, since: begun)
    }

    private func check(_ total: Int64) throws(TransferError) {
        if let size = job.size, size != total {
            throw .failed(Failure(.sizeMismatch, "the file has \(total) bytes, and \(size) were expected"))
        }
        if let limit = sizeLimit, total > limit { throw .failed(tooLarge(limit)) }
    }

    private func whole(_ total: Int64, _ generation: Generation) -> WholeFile {
        var file = WholeFile(
            size: total, checksum: expectedDigest(of: generation.entity),
            authority: job.checksum == nil ? "the server" : "the job",
            lastModified: generation.entity.lastModified)
        if let gate = context.gate {
            let subject = Gate.Subject(
                id: assignment.id, queue: assignment.queue, url: String(generation.source.prefix { $0 != "?" }),
                finalURL: finalURL(of: generation), bytes: total)
            file.gate = { [self] (file) throws(TransferError) in try await pass(gate, file, subject) }
        }
        return file
    }

    /// The URL to which redirects have led, without a query and credentials; "" if it is not known, because an earlier
    /// run has fetched all bytes and has not stored a URL with a query.
    private func finalURL(of generation: Generation) -> String {
        let mirrors = state.withLock { $0.mirrors }
        // Several mirrors may differ only in their queries.
        let mirror = ([mirrors[mirrors.current]] + mirrors.all).first { $0.source == generation.source }
        let isDirect = [mirror?.address?.resource ?? "", ""].contains(generation.entity.resource)
        let known = isDirect ? generation.source : generation.finalURL
        let url = mirror?.finalURL?.url.withoutCredentials.unmasked ?? known
        return String(url.prefix { $0 != "?" })
    }

    private func pass(_ gate: Gate, _ file: GatedFile, _ subject: Gate.Subject) async throws(TransferError) {
        io.trace?("the gate examines the file")
        let (verdict, duration) = try await io.waitForGate { () throws(TransferError) in
            try await gate.judge(file, subject)
        }
        state.withLock { $0.gateDuration = duration }
        io.recordGate(verdict, duration: duration)
        switch verdict {
        case .accepted: break
        case .refused(let message): throw TransferError(.gateRefused, message)
        case .failed(let why):
            throw .failed(Failure(.gateFailed, why, retryAfter: gate.settings.retryAfter))
        }
    }

    private func end(
        _ outcome: CommitOutcome, of generation: Generation, since begun: ContinuousClock.Instant
    ) -> ActivityOutcome {
        switch outcome {
        case .fenced: return .fenced
        case .storeIsGone: return .parked(context.store.waitsFor)
        case .stored(let file):
            let (seconds, gateDuration) = state.withLock { ($0.received.seconds, $0.gateDuration) }
            io.recordCommit(duration: .now - begun - gateDuration)
            return .completed(
                record(file, of: generation), seconds: seconds, unchanged: false)
        }
    }

    /// The record of a finished file, for the job's hash.
    ///
    /// - Parameter bytes: The record of its bytes. The job's media type is confirmed for them: `ReusePolicy`.
    func record(_ file: StoredFile, of bytes: some SourcedRecord) -> CompletedFile {
        var record = CompletedFile(
            file: file.file, bytes: file.bytes, store: context.store.id, inode: file.identity, modified: file.modified,
            entity: bytes.entity, source: bytes.source, checksum: file.checksum,
            validated: assignment.clock.milliseconds, contentType: job.contentType.map(MediaType.essence))
        record.sourceResource = bytes.sourceResource
        return record
    }
}
