import Contract
import Executors
import Glibc
import Synchronization
import Transfer

// All bytes are in: judged, synced, named.
extension Download {
    /// Judges the whole, syncs it and gives it its name: in one visit to the disk's threads, which begins with `prepare`, since
    /// for a small file the way there costs more than the work.
    func commit(
        _ total: Int64, after prepare: @escaping @Sendable () throws(TransferError) -> Void = {}
    ) async throws(TransferError) -> DownloadOutcome {
        await state.withLock({ $0.output })?.digestCaughtUp()
        let (checksum, outcome) = try await onDisk { () throws(TransferError) in
            try prepare()
            let checksum = try self.seal(total)
            return (checksum, self.isLeaseHeld() ? try self.place(checksum) : nil)
        }
        if let outcome { return outcome }
        guard await mayCommit() else { return .fenced }
        return try await onDisk { () throws(TransferError) in try self.place(checksum) }
    }

    /// Judges the whole and syncs it. Returns its checksum, if there is one to have. Blocks.
    private func seal(_ total: Int64) throws(TransferError) -> String? {
        let (output, partial, entity) = state.withLock { ($0.output!, $0.partial!, $0.entity) }
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
        try output.seal(total) { descriptor throws(TransferError) in
            try context.attributes.apply(to: descriptor, lastModified: entity.lastModified)
        }
        return checksum
    }

    /// Gives the sealed file its name. Blocks.
    private func place(_ checksum: String?) throws(TransferError) -> DownloadOutcome {
        let (chosen, partial, entity, source) = state.withLock { ($0.target!, $0.partial!, $0.entity, $0.source) }
        var target = chosen
        do throws(Target.PlaceError) {
            try target.place(partial, job.ifExists, durable: context.durability == .disk) { mayReplace(chosen) }
        } catch {
            switch error {
            // The partial file is gone: by whoever has the lease now, or with all of the root.
            case .fenced: return context.store.trouble() == nil ? .fenced : .parked("disk")
            case .failed(let error): throw error
            }
        }
        let status = target.directory.status(of: target.name) ?? stat()
        let seconds = state.withLock { $0.meter.seconds }
        return .completed(record(target, status, entity, source, checksum), seconds: seconds, unchanged: false)
    }

    func record(_ target: Target, _ status: stat, _ entity: Entity, _ source: String, _ checksum: String?)
        -> CompletedFile
    {
        CompletedFile(
            file: target.path, bytes: Int64(status.st_size), store: context.store.id, inode: UInt64(status.st_ino),
            modified: status.modifiedNanoseconds, entity: entity,
            source: source, checksum: checksum, validated: clock.milliseconds)
    }
}
