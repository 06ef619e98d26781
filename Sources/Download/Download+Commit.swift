import Contract
import Executors
import Glibc
import Synchronization
import Transfer

// All bytes are in: judged, synced, named.
extension Download {
    /// All bytes are in: judged, synced, named.
    func commit(_ total: Int64) async throws(TransferError) -> DownloadOutcome {
        let (output, partial, entity) = state.withLock { ($0.output!, $0.partial!, $0.entity) }
        guard var target = state.withLock({ $0.target }) else { throw .cancelled }
        if let size = job.size, size != total {
            throw .failed(Failure(.sizeMismatch, "the file has \(total) bytes, the job says \(size)"))
        }
        if let limit = [job.maxBytes, context.maximumSize].compactMap(\.self).min(), total > limit {
            throw .failed(tooLarge(limit))
        }
        var checksum: String?
        if let wanted = judge(of: entity) {
            let digest = try await output.digest(wanted.algorithm, size: total)
            checksum = "\(wanted.algorithm.rawValue):\(digest)"
            guard digest == wanted.digest else {
                await unlinkPartial()
                let who = job.checksum == nil ? "the server" : "the job"
                throw .failed(
                    Failure(
                        .checksumMismatch,
                        "the file's \(wanted.algorithm.rawValue) is \(digest), \(who) says \(wanted.digest)"))
            }
        }
        try await output.truncate(to: total)
        _ = try await output.checkpoint()
        guard await mayCommit() else { return .fenced }
        let (job, key, store, completed) = (job, key, context.store, completed)
        let durable = context.durability == .disk
        let placed: Result<(Target, stat), Target.PlaceError> = await context.engine.path.blocking.run { [target] in
            Result { () throws(Target.PlaceError) in
                var target = target
                let mayReplace = target.isOwn(completed, store: store) || target.isUnsettled(key)
                try target.place(partial, job.ifExists, mayReplace: mayReplace, durable: durable)
                return (target, target.directory.status(of: target.name) ?? stat())
            }
        }
        switch placed {
        case .success(let (placed, status)):
            target = placed
            let seconds = state.withLock { $0.meter.seconds }
            return .completed(record(target, status, entity, checksum), seconds: seconds, unchanged: false)
        case .failure(.fenced): return .fenced
        case .failure(.noSpace): throw .noSpace
        case .failure(.failed(let failure)): throw .failed(failure)
        }
    }

    func record(_ target: Target, _ status: stat, _ entity: Entity, _ checksum: String?) -> CompletedFile {
        CompletedFile(
            file: target.path, bytes: Int64(status.st_size), store: context.store.id, inode: UInt64(status.st_ino),
            modified: status.modifiedNanoseconds, entity: entity, checksum: checksum, validated: UnixTime.milliseconds)
    }
}
