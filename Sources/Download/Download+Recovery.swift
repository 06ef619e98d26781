import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

// What is there already: a finished file, or a partial one.
extension Download {
    /// A file that this job finished before, and that is still what the server has.
    func reuse() async throws(TransferError) -> DownloadOutcome? {
        let store = context.store
        guard let completed, resume == nil, job.ifExists == .reuse, isOurs(completed.source),
            matches(completed),
            let target = try? await self.target(of: completed.file),
            try await onDisk({ () throws(TransferError) in target.isOwn(completed, store: store) })
        else { return nil }
        if !isSettled { _ = await takeOver(target.directory, continuing: nil) }
        var result = completed
        let age = clock.milliseconds - completed.validated
        if let freshFor = job.freshFor, Double(age) / 1000 < freshFor {
            return .completed(result, seconds: 0, unchanged: true)
        }
        guard try await isUnchanged(completed.entity) else { return nil }
        result.validated = clock.milliseconds
        return .completed(result, seconds: 0, unchanged: true)
    }

    /// Asks the server. A 304 need not tell the date, and may be about the ETag alone, which some servers repeat for a file
    /// that has changed: then the date is asked about as well.
    private func isUnchanged(_ entity: Entity) async throws(TransferError) -> Bool {
        let conditions = Self.conditions(entity)
        for condition in conditions {
            let (transfer, _) = try await exchange.ask(
                mirrors[mirrors.current], [condition, ("Accept-Encoding", "identity")])
            defer { transfer.cancel() }
            switch Question(kind: .changed(entity), isProven: false).judge(transfer.head) {
            case .unchanged:
                guard let modified = transfer.head.headers["last-modified"] else { continue }
                return !entity.isModified(modified)
            case .takeWhole(let found, _): return found.isSame(as: entity)
            case .fail(let failure): throw .failed(failure)
            default: return false
            }
        }
        return !conditions.isEmpty
    }

    func matches(_ file: CompletedFile) -> Bool {
        (job.size == nil || job.size == file.bytes)
            && (job.checksum == nil || job.checksum?.description == file.checksum)
    }

    private static func conditions(_ entity: Entity) -> [(name: String, value: String)] {
        [
            entity.etag.map { ("If-None-Match", $0) }, entity.lastModified.map { ("If-Modified-Since", $0) },
        ].compactMap(\.self)
    }

    /// Opens what an earlier run left, if it may be continued.
    func recover() async throws(TransferError) -> Step {
        guard let resume, resume.store == context.store.id else { return .begin }
        guard let target = try? await self.target(of: resume.file) else { return .begin }
        let left = await takeOver(target.directory, continuing: resume.generation)
        if let placed = left.placed.first(where: { $0.generation == resume.generation }) {
            var target = target
            target.name = placed.name
            if context.durability == .disk {
                // Whoever gave it the name may not have come to sync that.
                let directory = target.directory
                try await onDisk { () throws(TransferError) in try directory.sync() }
            }
            return .finished(
                .completed(
                    record(target, placed.status, resume.entity, resume.source, nil), seconds: 0, unchanged: false))
        }
        let partial = await context.engine.path.blocking.run {
            left.partial.flatMap { PartialFile.open($0, fulfilling: resume, in: target.directory) }
        }
        guard let partial else { return .begin }
        return try await goOn(with: partial, of: target, from: resume)
    }

    /// Fences what earlier runs are still about to do in a directory.
    private func takeOver(_ directory: Directory, continuing generation: String?) async -> Inheritance {
        await context.engine.path.blocking.run { [key, token] in
            Inheritance(of: key, in: directory, by: token, continuing: generation)
        }
    }

    /// Whether the bytes that `resume` tells of can be joined with others.
    func canGoOn(_ resume: ResumePoint) -> Bool {
        let isKnown = resume.entity.digest != nil || !resume.isMixed && resume.entity.strongValidator != nil
        return job.method == "GET" && resume.offsets.count > 0 && resume.entity.total != nil
            && (job.checksum != nil || isOurs(resume.source) && isKnown)
    }

    private func goOn(
        with partial: PartialFile, of target: Target, from resume: ResumePoint
    ) async throws(TransferError) -> Step {
        let output = OutputFile(
            descriptor: partial.descriptor, path: context.engine.path, durability: context.durability,
            written: resume.offsets)
        guard canGoOn(resume), let total = resume.entity.total else { return .begin }
        let isOurs = isOurs(resume.source)
        state.withLock { state in
            state.output = output
            state.partial = partial
            state.target = target
            state.entity = resume.entity
            state.source = resume.source
            state.isMixed = resume.isMixed
            if isOurs { state.mirrors.told(resume.entity) }
            state.base = resume.offsets.count
            state.checkpointed = resume.offsets
        }
        // It may have lost its reservation, or never had one.
        let keepFree = context.store.keptFree
        try await onDisk { () throws(TransferError) in try output.reserve(total, keepFree: keepFree) }
        report(.resumed(offset: resume.offsets.count, total: total))
        return .go
    }

    func target(of path: String) async throws(TransferError) -> Target {
        let (job, store) = (job, context.store)
        return try await onDisk { () throws(TransferError) in
            try Target(chosen: path, isGiven: job.path.map { $0.utf8.last != UInt8(ascii: "/") } ?? false, in: store)
        }
    }
}
