import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

// The commit: all bytes have arrived, and become an object under its final name.
extension ObjectPartial {
    func commit(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        await waitForWork()
        if let error { throw error }
        let (isSingle, isAssembled) = state.withLock { state in
            let first = state.storeState.formula.range(of: 1)
            return (state.storeState.upload == nil && whole.size <= first.upperBound, state.isAssembled)
        }
        if isSingle { return try await commitAtOnce(whole) }
        if !isAssembled { try await uploadRest(whole.size) }
        guard let gate = whole.gate else {
            return try await ignoringCancellation { () throws(TransferError) in try await self.complete(whole) }
        }
        // The gate ends at once with its task, unlike the steps around it.
        let verified = try await ignoringCancellation { () throws(TransferError) in
            try await self.completeHidden(whole)
        }
        guard let verified, try await passes(gate, verified, whole.size) else { return .fenced }
        return try await ignoringCancellation { () throws(TransferError) in
            try await self.copyToName(verified, whole)
        }
    }

    /// How long a commit goes on after its task was cancelled. A pause must take effect within 3 seconds.
    private static let grace = Duration.milliseconds(1500)

    /// Runs `body`, and cancels it only `grace` after this task was cancelled. A request that gives the final name
    /// would otherwise be cut off, and the object would exist while its job counts as stopped.
    func ignoringCancellation<T: Sendable>(
        _ body: @escaping @Sendable () async throws(TransferError) -> T
    ) async throws(TransferError) -> T {
        let task = Task(executorPreference: client.engine.executor) { () -> Result<T, TransferError> in
            do throws(TransferError) { return .success(try await body()) } catch { return .failure(error) }
        }
        let result = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            Task {
                try? await Task.sleep(for: Self.grace)
                task.cancel()
            }
        }
        return try result.get()
    }

    // MARK: In one request

    private func commitAtOnce(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        guard whole.size > 0 else {
            let nothing = RequestMemory([])
            return try await verifyAndPut(nothing, whole)
        }
        let buffer = try await buffer(for: 1)
        try await fill(buffer, 0..<whole.size)
        let outcome = try await verifyAndPut(buffer.body(0..<whole.size), whole)
        state.withLock { $0.buffers[1] = nil }
        store.memory.release(buffer.reservation)
        return outcome
    }

    /// Verifies bytes that are all in memory, and puts them as an object under its final name.
    func verifyAndPut(_ body: RequestMemory, _ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        let checksum = try await judge(body.bytes, whole, keeping: body)
        if let gate = whole.gate {
            let isPassed = try await passes(gate, checksum) { (consume) throws(TransferError) in
                for start in stride(from: 0, to: body.bytes.count, by: 1 << 20) {
                    let end = min(body.bytes.count, start + 1 << 20)
                    guard await consume(Array(body.bytes[start..<end])) else { return }
                }
            }
            guard isPassed else { return .fenced }
        }
        return try await ignoringCancellation { () throws(TransferError) in
            try await self.putInOneRequest(body, whole, checksum: checksum)
        }
    }

    /// Lets the operator's gate see the bytes that `send` sends. False if another run has the job.
    ///
    /// - Throws: What the gate throws. If it refuses the file, the partial file is discarded first.
    func passes(
        _ gate: @Sendable (GatedFile) async throws(TransferError) -> Void, _ checksum: String?,
        _ send: @escaping GatedFile.Stream
    ) async throws(TransferError) -> Bool {
        let name = state.withLock { $0.name.path }
        do throws(TransferError) {
            try await gate(GatedFile(name: name, checksum: checksum, contents: .stream(send)))
            return true
        } catch {
            guard case .failed(let failure) = error, failure.code == .gateRefused else { throw error }
            // A run that has taken over the hidden objects goes on with them.
            guard try await hasJob() else { return false }
            await discard(soon: false)
            throw error
        }
    }

    func isStillOwner() async throws(TransferError) -> Bool {
        do { return try await isOwner() } catch { throw error.transferError }
    }

    /// Compares the digest of `body` with the required one. Returns `algorithm:digest`, or nil if no digest is
    /// required.
    ///
    /// - Throws: `checksum_mismatch` if the digests differ. The partial file is discarded first.
    func judge(
        _ bytes: UnsafeRawBufferPointer, _ whole: WholeFile, keeping body: RequestMemory
    ) async throws(TransferError) -> String? {
        guard let wanted = whole.checksum else { return nil }
        let digest = await store.threads.run {
            let hash = StreamDigest(wanted.algorithm)
            hash.update(body.bytes)
            return hash.hexadecimal()
        }
        guard digest == wanted.digest else { throw await mismatch(digest, whole) }
        return "\(wanted.algorithm.rawValue):\(digest)"
    }

    func mismatch(_ digest: String, _ whole: WholeFile) async -> TransferError {
        let wanted = whole.checksum!
        await discardOwn()
        return .failed(
            Failure(
                .checksumMismatch,
                "the file's \(wanted.algorithm.rawValue) is \(digest), \(whole.authority) says \(wanted.digest)"))
    }

    /// Puts the whole object under the first name that is free or may be replaced.
    func putInOneRequest(
        _ body: RequestMemory, _ whole: WholeFile, checksum: String?
    ) async throws(TransferError) -> CommitOutcome {
        let md5 =
            body.bytes.count > 64 << 10 ? await store.threads.run { Digest.md5(body.bytes) } : Digest.md5(body.bytes)
        let mark = newMark
        let (unnumbered, name) = state.withLock { ($0.unnumbered, $0.name) }
        let chosen = await completedNameAtOnce(unnumbered) ?? name
        let object = ObjectHead(size: whole.size, mark: mark)
        var candidates = candidates(from: chosen)
        while let (name, isNumbered) = try await candidates.next() {
            state.withLock { $0.name = name }
            // Most names are free, and If-None-Match shows whether this one is. Behind a name that is taken the next one
            // often is, too, and each PUT sends the whole body.
            let naming = try await nameObject(
                name, by: .put, size: whole.size, isNumbered: isNumbered,
                checksFirst: isNumbered || !store.knows(.create)
            ) {
                (condition) throws(StoreError) in
                try await self.client.putFinal(
                    self.client.address.key(name.path), body, md5: md5, mark: mark, condition)
                return object
            }
            switch naming {
            case .placed(let head): return stored(head, checksum: checksum)
            // A PUT is not `deleted`, because it is repeated.
            case .fenced, .deleted: return .fenced
            case .renumber: continue
            }
        }
        throw conflict(at: chosen)
    }

    private func completedNameAtOnce(_ chosen: ObjectName) async -> ObjectName? {
        guard request.completed != nil, request.mayNumber, let name = try? await freeName(chosen), name != chosen else {
            return nil
        }
        return name.path == request.completed?.file ? name : nil
    }
}

extension ObjectHead {
    init(size: Int64, mark: ObjectMark) { (self.size, etag, self.mark, age) = (size, nil, mark, nil) }
}
