import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

/// The partial file in a directory: hidden, beside its final name.
final class FilePartial: Partial {
    /// What belongs to the partial file once it is created.
    struct Opened: Sendable {
        let output: OutputFile
        var hidden: HiddenFile
        let target: Target
        /// The lease was not certain when the file was created. So what earlier runs have left is taken over when this
        /// file gets its name.
        var owesTakeover = false
    }

    private enum Phase: Sendable {
        case unopened
        case open(Opened)
        /// Removed. The values say what there was.
        case discarded(HiddenFile, Target)
    }

    private struct State: Sendable {
        var phase: Phase
        /// The durable bytes that the last checkpoint returned.
        var checkpointed: ByteIntervals?
    }

    let generation: String
    private let store: FileStore
    private let request: FileRequest
    private let suggested: String
    private let state: Mutex<State>

    init(_ store: FileStore, _ request: FileRequest, generation: String, suggested: String) {
        (self.store, self.request, self.generation, self.suggested) = (store, request, generation, suggested)
        state = Mutex(State(phase: .unopened))
    }

    /// Continues a file that an earlier run left, with the bytes `written` in it.
    init(_ store: FileStore, _ request: FileRequest, continuing opened: Opened, written: ByteIntervals) {
        (self.store, self.request, self.suggested) = (store, request, opened.target.name)
        generation = opened.hidden.generation
        state = Mutex(State(phase: .open(opened), checkpointed: written))
    }

    deinit {
        // Closing the file may block, and is not worth waking a thread for each of many small files.
        if let opened { store.commits.deferWork { withExtendedLifetime(opened) {} } }
    }

    private var opened: Opened? { state.withLock { if case .open(let opened) = $0.phase { opened } else { nil } } }

    /// The hidden file and its target, even if the file was removed; nil before it is opened.
    private var traces: (hidden: HiddenFile, target: Target)? {
        state.withLock { state in
            switch state.phase {
            case .unopened: nil
            case .open(let opened): (opened.hidden, opened.target)
            case .discarded(let hidden, let target): (hidden, target)
            }
        }
    }

    var location: PartialLocation? {
        traces.map { hidden, target in
            PartialLocation(file: target.path, key: request.key, generation: generation, name: hidden.name)
        }
    }

    var written: ByteIntervals { opened?.output.written ?? ByteIntervals() }
    var error: TransferError? { opened?.output.error }
    var isHashing: Bool { opened?.output.hasDigest ?? false }

    func sink(at offset: Int64, wake: @escaping @Sendable () async -> Bool) -> any BodySink {
        guard let opened else { preconditionFailure("bytes arrived for a partial file that is not open") }
        return opened.output.sink(at: offset, wake: wake)
    }

    // MARK: Its beginning

    func open(
        total: Int64?, hashing digest: Job.Checksum.Algorithm?, with bytes: [UInt8]
    ) async throws(TransferError) {
        try await store.onDisk { () throws(TransferError) in
            let target = try self.target()
            // `put` has no such check, because its file meets a conflict when it gets its name.
            try target.check(self.request, mayReplace: self.mayReplace)
            try self.create(target, total: total, hashing: digest, with: bytes)
        }
    }

    func reserve(_ total: Int64) async throws(TransferError) {
        guard let output = opened?.output else { return }
        let minFree = store.options.minFree
        try await store.onDisk { () throws(TransferError) in try output.reserve(total, minFree: minFree) }
    }

    /// Where the file goes. If the job finished a file before under a numbered name, that file is replaced.
    private func target() throws(TransferError) -> Target {
        let target = try Target(request.path, suggested: suggested, in: store)
        guard let completed = request.completed, request.mayNumber,
            completed.file.pathParts.dropLast() == target.folder.pathParts[...]
        else { return target }
        var numbered = target
        numbered.name = completed.file.pathParts.last ?? ""
        guard FileName.isNumbered(numbered.name, of: target.name), try numbered.isOwn(completed, store: store) else {
            return target
        }
        return numbered
    }

    /// Blocks the calling thread.
    @discardableResult
    private func create(
        _ target: Target, total: Int64?, hashing digest: Job.Checksum.Algorithm?, with bytes: [UInt8]
    ) throws(TransferError) -> Opened {
        // The token names a run's first generation. A new job has no other files.
        let isAlone = request.isNew && generation == request.runToken
        let takesOver = !isAlone && request.lease.isHeld()
        if takesOver { _ = try Takeover(of: request.key, in: target.directory, by: request.runToken) }
        let hidden = try HiddenFile.create(
            in: target.directory, key: request.key, generation: generation,
            mode: store.options.attributes.modeWhileWriting)
        let output = OutputFile(
            descriptor: hidden.descriptor, diskWriter: store.diskWriter, durability: store.options.durability,
            digest: digest, writePermit: request.lease.writePermit)
        let opened = Opened(
            output: output, hidden: hidden, target: target, owesTakeover: !isAlone && !takesOver)
        state.withLock { $0.phase = .open(opened) }
        do throws(TransferError) {
            // A small file that is here as a whole is not worth a check of the free space each time.
            if total != Int64(bytes.count) || bytes.count > Block.smallSize || target.directory !== store.directory
                || !store.hasPlentyOfSpace()
            {
                try output.reserve(total, minFree: store.options.minFree)
            }
            try output.write(bytes)
        } catch {
            // The file has nothing that could be continued.
            hidden.directory.unlink(hidden.name)
            withExtendedLifetime(opened) { state.withLock { $0.phase = .discarded(hidden, target) } }
            throw error
        }
        return opened
    }

    // MARK: Its checkpoints

    func checkpoint(isLast: Bool) async throws(TransferError) -> Checkpoint? {
        guard let output = opened?.output else { return nil }
        let result: Result<Checkpoint?, TransferError>
        do throws(TransferError) { result = .success(try await checkpoint(output)) } catch { result = .failure(error) }
        // Even after an error: if the disk is full, others need the space. The job may wait for a long time.
        if isLast { await releaseReservation(of: output) }
        return try result.get()
    }

    private func releaseReservation(of output: OutputFile) async {
        let lease = request.lease
        // A later run may be writing to the file if this one has lost the job.
        await store.diskWriter.blocking.run { if lease.isHeld() { output.releaseReservation() } }
    }

    private func checkpoint(_ output: OutputFile) async throws(TransferError) -> Checkpoint? {
        try await output.checkpoint { durable in
            let isNew = self.state.withLock { state in
                guard state.checkpointed != durable else { return false }
                state.checkpointed = durable
                return true
            }
            guard isNew else { return nil }
            return Checkpoint(offsets: durable, blockChecks: BlockCheck.compute(durable, output.descriptor))
        }
    }

    // MARK: Its end

    func commit(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        await opened?.output.waitForDigest()
        // The first steps change the file's size and time.
        if request.lease.writePermit() != .granted, await !request.lease.confirm() { return .fenced }
        let commit = fileCommit(of: whole) { () throws(TransferError) in
            guard let opened = self.opened else { throw .cancelled }
            try opened.output.truncate(to: whole.size)
            return try self.check(whole, opened)
        }
        return try await finish(commit, whole, try await store.onDisk { () throws(TransferError) in try commit.run() })
    }

    func put(_ bytes: [UInt8], _ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        let commit = fileCommit(of: whole) { () throws(TransferError) in
            let opened = try self.create(
                try self.target(), total: whole.size, hashing: whole.checksum?.algorithm, with: bytes)
            return try self.check(whole, opened)
        }
        return try await finish(commit, whole, try await store.commits.run(commit))
    }

    private func fileCommit(
        of whole: WholeFile, _ write: @escaping @Sendable () throws(TransferError) -> FileCommit.Written
    ) -> FileCommit {
        let (size, isGated, lease) = (whole.size, whole.gate != nil, request.lease)
        return FileCommit(
            durability: store.options.durability, write: write, mayName: { !isGated && lease.isHeld() },
            name: { (file) throws(TransferError) in try self.name(file, size) })
    }

    private func finish(
        _ commit: FileCommit, _ whole: WholeFile, _ end: FileCommit.End
    ) async throws(TransferError) -> CommitOutcome {
        switch end {
        case .ended(let outcome): return try await confirmed(outcome)
        case .unsure(let written):
            if let gate = whole.gate {
                let before = written.output.times
                do throws(TransferError) {
                    try await pass(gate, written)
                    guard try await isUnchanged(written, whole, since: before) else { throw Self.changedByGate }
                } catch {
                    guard case .failed(let failure) = error,
                        failure.code == .gateRefused || error == Self.changedByGate
                            || written.output.times?.written != before?.written
                    else { throw error }
                    // A run that has taken the file over has given it another name, and may be reading it.
                    guard await request.lease.confirm() else { return .fenced }
                    await unlinkHidden()
                    throw error
                }
            }
            guard await request.lease.confirm() else { return .fenced }
            return try await confirmed(
                store.onDisk { () throws(TransferError) in try commit.finish(written) })
        }
    }

    /// - Throws: `io` if the partial file is gone although no other run has the job.
    private func confirmed(_ outcome: CommitOutcome) async throws(TransferError) -> CommitOutcome {
        guard case .fenced = outcome, await request.lease.confirm() else { return outcome }
        throw .failed(
            Failure(.io, "the partial file of this download is gone: another program has moved or deleted it"))
    }

    /// Lets the operator's gate see the file.
    private func pass(
        _ gate: @Sendable (GatedFile) async throws(TransferError) -> Void, _ written: FileCommit.Written
    ) async throws(TransferError) {
        guard let opened else { throw .cancelled }
        let (target, root) = (opened.target, store.root)
        // The gate gets a descriptor of its own, which cannot write and has its own position.
        let (descriptor, full) = try await store.onDisk { () throws(TransferError) in
            let descriptor = Glibc.open("/proc/self/fd/\(opened.output.descriptor)", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { throw TransferError(file: "the file cannot be read for the gate", errno) }
            let resolved = realpath(root, nil)
            defer { free(resolved) }
            return (descriptor, resolved.map { String(cString: $0) } ?? root)
        }
        defer { close(descriptor) }
        try await gate(
            GatedFile(
                name: target.path, checksum: written.checksum,
                contents: .file(
                    descriptor: descriptor, path: "\(full)/\(target.folder)\(opened.hidden.name)", root: full)))
    }

    /// Whether the gate has left the bytes as they were. A command may restore the time of the last write, as `cp -p` does.
    /// Then the file is read again, if it has a checksum: a gate may set attributes or make a link.
    private func isUnchanged(
        _ written: FileCommit.Written, _ whole: WholeFile, since before: OutputFile.Times?
    ) async throws(TransferError) -> Bool {
        let now = written.output.times
        guard now?.written == before?.written else { return false }
        guard now?.changed != before?.changed, let checksum = written.checksum.flatMap(Job.Checksum.init) else {
            return true
        }
        return try await store.onDisk { () throws(TransferError) in
            try written.output.has(checksum, size: whole.size)
        }
    }

    private static let changedByGate = TransferError.failed(
        Failure(.io, "the command of --gate has changed the file: let it write to another one"))

    private func unlinkHidden() async {
        guard let hidden = opened?.hidden else { return }
        await store.diskWriter.blocking.run { hidden.directory.unlink(hidden.name) }
    }

    /// Compares the file with what it must be, and sets its attributes. Blocks.
    ///
    /// - Throws: What is wrong with the file. If its digest is wrong, the hidden file has been removed.
    private func check(_ whole: WholeFile, _ opened: Opened) throws(TransferError) -> FileCommit.Written {
        let (output, hidden) = (opened.output, opened.hidden)
        if let error = output.error { throw error }
        var checksum: String?
        if let wanted = whole.checksum {
            let digest = try output.digest(wanted.algorithm, size: whole.size)
            checksum = "\(wanted.algorithm.rawValue):\(digest)"
            guard digest == wanted.digest else {
                hidden.directory.unlink(hidden.name)
                throw .failed(
                    Failure(
                        .checksumMismatch,
                        "the file's \(wanted.algorithm.rawValue) is \(digest), \(whole.authority) says \(wanted.digest)"
                    ))
            }
        }
        let hasAttributes = try store.options.attributes.apply(
            to: output.descriptor, lastModified: whole.lastModified)
        return FileCommit.Written(output: output, checksum: checksum, hasAttributes: hasAttributes)
    }

    /// Gives the file its name. Blocks.
    private func name(_ file: FileCommit.Written, _ size: Int64) throws(TransferError) -> FileCommit.Named {
        guard let opened else { throw .cancelled }
        guard let status = file.output.statusIfWhole(size) else { throw Placement.disturbed(opened.hidden) }
        if opened.owesTakeover {
            _ = try Takeover(
                of: request.key, in: opened.target.directory, by: request.runToken, besides: opened.hidden.hidden)
        }
        var target = opened.target
        var placing = Placement(
            opened.hidden, status, in: store, folder: target.folder, isDurable: store.options.durability == .disk)
        let isOwn: Bool
        do throws(Target.NamingError) {
            isOwn = try target.place(&placing, request) { found throws(TransferError) in
                if found.name == opened.target.name { return try mayReplace(found) }
                // A file that this job completed under a numbered name stays, and the next number is tried.
                guard try isUnsettled(found) else { return false }
                if try found.isOwn(request.completed, store: store) { return false }
                return try !found.isChanged(since: request.completed, store: store)
            }
        } catch {
            switch error {
            // The partial file is gone, because the run that has the lease now took it over or because the whole root
            // is gone.
            case .fenced: return FileCommit.Named(outcome: store.faultNow() == nil ? .fenced : .storeIsGone)
            case .failed(let error): throw error
            }
        }
        let (named, lease) = (placing.partial, request.lease)
        state.withLock { state in
            guard named.name != opened.hidden.name, case .open(var current) = state.phase else { return }
            current.hidden = named
            state.phase = .open(current)
        }
        return FileCommit.Named(
            outcome: .stored(target.record(placing.status, checksum: file.checksum)), directory: target.directory,
            // Only an earlier run leaves more.
            successor: isOwn && !request.hasNoLeftovers ? named : nil,
            mayUnlinkOthers: { lease.isStillHeld })
    }

    /// Whether the file with the final name is the job's own, because the job finished it before, or because a run
    /// placed it and Redis does not know.
    ///
    /// - Throws: As `Target.isUnsettled`.
    private func mayReplace(_ target: Target) throws(TransferError) -> Bool {
        if try target.isOwn(request.completed, store: store) { return true }
        if try target.isChanged(since: request.completed, store: store) { return false }
        return try isUnsettled(target)
    }

    /// - Throws: As `Target.isUnsettled`.
    private func isUnsettled(_ target: Target) throws(TransferError) -> Bool {
        // A directory of many files is not read for each of them.
        if request.hasNoLeftovers { return false }
        return try target.isUnsettled(request.key, in: store)
    }

    func exists() async -> Bool {
        guard let traces else { return false }
        return await store.diskWriter.blocking.run { traces.hidden.directory.status(of: traces.hidden.name) != nil }
    }

    func discard(soon: Bool) async {
        guard let traces else { return }
        let unlink: BlockingPool.Work = { [self] in
            let before = state.withLock { state in
                exchange(&state.phase, with: .discarded(traces.hidden, traces.target))
            }
            let hidden = if case .open(let opened) = before { opened.hidden } else { traces.hidden }
            hidden.directory.unlink(hidden.name)
            // The last reference closes the file. It must not be released under the lock.
            withExtendedLifetime(before) {}
        }
        if soon { store.commits.deferWork(unlink) } else { await store.diskWriter.blocking.run(unlink) }
    }
}
