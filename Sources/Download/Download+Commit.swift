import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

// All bytes are in: judged, synced, named.
extension Download {
    /// Judges the whole, syncs it and gives it its name.
    func commit(_ total: Int64) async throws(TransferError) -> DownloadOutcome {
        await state.withLock({ $0.output })?.digestCaughtUp()
        let commit = fileCommit { () throws(TransferError) in
            let output = self.state.withLock { $0.output! }
            try output.cut(to: total)
            return try self.judge(total, of: output)
        }
        return try await finish(commit, try await onDisk { () throws(TransferError) in try commit.run() })
    }

    /// The same for a small file that is in memory yet, together with others.
    func commit(_ first: FirstResponse, _ bytes: [UInt8]) async throws(TransferError) -> DownloadOutcome {
        let commit = fileCommit { () throws(TransferError) in
            try self.judge(Int64(bytes.count), of: try self.create(for: first, with: bytes, isWhole: true))
        }
        return try await finish(commit, try await context.commits.run(commit))
    }

    private func fileCommit(_ write: @escaping @Sendable () throws(TransferError) -> FileCommit.Written) -> FileCommit {
        FileCommit(durability: context.durability, write: write, mayName: isLeaseHeld, name: name)
    }

    private func finish(
        _ commit: FileCommit, _ end: FileCommit.End
    ) async throws(TransferError) -> DownloadOutcome {
        switch end {
        case .ended(let outcome): return outcome
        case .unsure(let written):
            guard await mayCommit() else { return .fenced }
            return try await onDisk { () throws(TransferError) in try commit.finish(written) }
        }
    }

    /// Judges the whole file. Blocks.
    private func judge(_ total: Int64, of output: OutputFile) throws(TransferError) -> FileCommit.Written {
        let (partial, entity) = state.withLock { ($0.partial!, $0.entity) }
        if let error = output.error { throw error }
        if let size = job.size, size != total {
            throw .failed(Failure(.sizeMismatch, "the file has \(total) bytes, the job says \(size)"))
        }
        if let limit = sizeLimit, total > limit { throw .failed(tooLarge(limit)) }
        var checksum: String?
        if let wanted = judge(of: entity) {
            let digest = try output.digest(wanted.algorithm, size: total)
            checksum = "\(wanted.algorithm.rawValue):\(digest)"
            guard digest == wanted.digest else {
                partial.directory.unlink(partial.name)
                let who = job.checksum == nil ? "the server" : "the job"
                throw .failed(
                    Failure(
                        .checksumMismatch,
                        "the file's \(wanted.algorithm.rawValue) is \(digest), \(who) says \(wanted.digest)"))
            }
        }
        let hasAttributes = try context.attributes.apply(to: output.descriptor, lastModified: entity.lastModified)
        return FileCommit.Written(output: output, checksum: checksum, hasAttributes: hasAttributes)
    }

    /// Gives the file its name. Blocks.
    private func name(_ file: FileCommit.Written) throws(TransferError) -> FileCommit.Named {
        let (chosen, partial, entity, source) = state.withLock { ($0.target!, $0.partial!, $0.entity, $0.source) }
        var target = chosen
        var placing = Placing(
            partial, in: context.store, folder: target.folder, isDurable: context.durability == .disk)
        let isOwn: Bool
        do throws(Target.PlaceError) {
            isOwn = try target.place(&placing, job.ifExists) { found in
                // What this job completed under a numbered name stays: it is asked to find another one.
                found.name == chosen.name
                    ? mayReplace(found)
                    : found.isUnsettled(key, in: context.store) && !found.isOwn(completed, store: context.store)
            }
        } catch {
            switch error {
            // The partial file is gone: by whoever has the lease now, or with all of the root.
            case .fenced: return FileCommit.Named(outcome: context.store.trouble() == nil ? .fenced : .parked("disk"))
            case .failed(let error): throw error
            }
        }
        let named = placing.partial
        if named.name != partial.name { state.withLock { $0.partial = named } }
        var status = stat()
        fstat(file.output.descriptor, &status)
        let seconds = state.withLock { $0.meter.seconds }
        return FileCommit.Named(
            outcome: .completed(
                record(target, status, entity, source, file.checksum), seconds: seconds, unchanged: false),
            directory: target.directory, successor: isOwn ? named : nil)
    }

    func record(_ target: Target, _ status: stat, _ entity: Entity, _ source: String, _ checksum: String?)
        -> CompletedFile
    {
        CompletedFile(
            file: target.path, bytes: Int64(status.st_size), store: context.store.id, inode: status.lastingIdentity,
            modified: status.modifiedNanoseconds, entity: entity,
            source: source, checksum: checksum, validated: clock.milliseconds)
    }
}
