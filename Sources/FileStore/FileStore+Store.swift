import Glibc
package import HaulContract
import HaulExecutors
package import HaulHTTP
package import HaulStorage

// The operations of a store, on files.
extension FileStore: DurableStore {
    package var name: String { root }

    package var provesByLinks: Bool { true }

    package func fault() async -> String? { await diskWriter.blocking.run { self.faultNow() } }

    package func begin(_ request: FileRequest, generation: String, suggested: String) -> any Partial {
        FilePartial(self, request, generation: generation, suggested: suggested)
    }

    package func resume(_ request: FileRequest, from resume: ResumePoint) async throws(TransferError) -> Remainder {
        guard let target = try await target(of: resume.file, for: request) else { return .nothing }
        return try await underLease(of: request) { () throws(TransferError) in
            let left = try Takeover(
                of: request.key, in: target.directory, by: request.runToken, continuing: resume)
            if let placed = left.placed.first(where: { $0.generation == resume.generation }) {
                // The run that gave the name may have ended before it synced the name.
                if self.options.durability == .disk { try target.directory.sync() }
                var target = target
                target.name = placed.name
                return .placed(target.record(placed.status, checksum: nil))
            }
            guard let name = left.partial,
                let hidden = try HiddenFile.open(name, fulfilling: resume, in: target.directory)
            else { return .nothing }
            let output = OutputFile(
                descriptor: hidden.descriptor, diskWriter: self.diskWriter, durability: self.options.durability,
                written: resume.offsets, writePermit: request.lease.writePermit)
            return .partial(
                FilePartial(
                    self, request, continuing: .init(output: output, hidden: hidden, target: target),
                    written: resume.offsets))
        }
    }

    package func held(
        _ file: CompletedFile, for request: FileRequest, fencing: Bool
    ) async throws(TransferError) -> HeldFile? {
        guard let target = try await target(of: file.file, for: request) else { return nil }
        guard fencing else {
            return try await onDisk { () throws(TransferError) in
                try target.isOwn(file, store: self) ? HeldFile() : nil
            }
        }
        return try await underLease(of: request) { () throws(TransferError) -> HeldFile? in
            guard try target.isOwn(file, store: self) else { return nil }
            let left = try Takeover(of: request.key, in: target.directory, by: request.runToken)
            return HeldFile(
                proof: left.placed.first.map { placed in
                    PartialLocation(
                        file: file.file, key: request.key, generation: placed.generation, name: placed.hidden.text)
                })
        }
    }

    /// Runs `body`, which takes over what earlier runs have left, while the run certainly has the job. Waits for Redis if
    /// our own clock does not suffice.
    ///
    /// - Throws: `.cancelled` if another run has the job, besides what `body` throws.
    private func underLease<T: Sendable>(
        of request: FileRequest, _ body: @escaping @Sendable () throws(TransferError) -> T
    ) async throws(TransferError) -> T {
        while await request.lease.holds() {
            // Right before the work, because the process may have been stopped since the answer.
            let result = try await onDisk { () throws(TransferError) -> T? in
                request.lease.isStillHeld ? try body() : nil
            }
            if let result { return result }
        }
        throw .cancelled
    }

    package func digest(
        of file: StoredFile, _ algorithm: Job.Checksum.Algorithm
    ) async throws(TransferError) -> String? {
        try await onDisk { () throws(TransferError) in
            let parts = file.file.pathParts
            guard let name = parts.last,
                let directory = try self.directory.openExisting(parts.dropLast().joined(separator: "/"))
            else { return nil }
            let descriptor = openat(directory.descriptor, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
            guard descriptor >= 0 else { return nil }
            defer { close(descriptor) }
            let identity = FinishedIdentity(inode: file.identity, bytes: file.bytes, modified: file.modified)
            var status = stat()
            guard fstat(descriptor, &status) == 0, status.matches(identity) else { return nil }
            return StreamDigest.hexadecimal(of: "/proc/self/fd/\(descriptor)", algorithm)
        }
    }

    /// The target of a path that was chosen before. nil if no run can use its folder.
    ///
    /// - Throws: Any other error, after which it is unknown what the folder holds. To take it for empty would remove a
    ///   partial file, or download a finished one again.
    private func target(of path: String, for request: FileRequest) async throws(TransferError) -> Target? {
        do throws(TransferError) {
            return try await onDisk { () throws(TransferError) in
                try Target(chosen: path, given: request.givesName ? request.path : nil, in: self)
            }
        } catch {
            guard case .failed(let failure) = error,
                [.pathForbidden, .fileExists, .badJob].contains(failure.code)
            else { throw error }
            return nil
        }
    }

    // MARK: Files that belong to no run

    package func discard(_ location: PartialLocation) async { await diskWriter.blocking.run { self.unlink(location) } }

    package func discard(_ locations: [PartialLocation]) async {
        await diskWriter.blocking.run { self.unlink(locations) }
    }

    package func discardUnplaced(_ locations: [PartialLocation]) async {
        await diskWriter.blocking.run { for location in locations { self.unlinkUnplaced(location) } }
    }

    package func delete(_ file: String, _ identity: FinishedIdentity) async -> Bool {
        await diskWriter.blocking.run { self.unlinkFinished(file, identity) }
    }

    package func leftovers(olderThan age: Int64) async -> [Leftover] {
        await diskWriter.blocking.run { self.leftoversNow(olderThan: age) }
    }

    package func remove(_ leftovers: [Leftover]) async -> [Leftover] {
        await diskWriter.blocking.run { leftovers.filter { self.unlink($0) } }
    }

    package func runDeferredWork() async {
        await commits.runDeferredWork()
        // A program with one user leaves nothing beside the files.
        guard options.id != nil, naming != .link else { return }
        await diskWriter.blocking.run { NameLock.removeFile(in: self.directory) }
    }

    /// Runs `body`, which may block, on the disk's threads.
    func onDisk<T: Sendable>(
        _ body: @escaping @Sendable () throws(TransferError) -> T
    ) async throws(TransferError) -> T {
        try await diskWriter.blocking.run(body)
    }
}
