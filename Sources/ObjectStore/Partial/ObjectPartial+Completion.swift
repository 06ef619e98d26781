import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

// The parts of an upload become an object under its name.
extension ObjectPartial {
    /// Uploads the parts that are not uploaded yet: those whose bytes are all in tails, and the last part of a file
    /// whose length was unknown.
    func uploadRest(_ size: Int64) async throws(TransferError) {
        let formula = state.withLock { $0.storeState.formula }
        let digest = state.withLock { $0.digest }
        for number in 1...formula.part(at: max(0, size - 1)) {
            guard state.withLock({ $0.storeState.parts[number] == nil }) else { continue }
            let range = formula.range(of: number).clamped(to: 0..<size)
            guard state.withLock({ $0.received.contains(range) }) else {
                throw await damaged("bytes of a part are missing")
            }
            let buffer = try await buffer(for: number)
            defer {
                state.withLock { $0.buffers[number] = nil }
                store.memory.release(buffer.reservation)
            }
            try await uploadNow(buffer, range, digest)
        }
    }

    func complete(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        guard state.withLock({ $0.storeState.isHidden }) else { return try await completeUnderName(whole) }
        guard let verified = try await completeHidden(whole) else { return .fenced }
        return try await copyToName(verified, whole)
    }

    private func completeUnderName(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        let (upload, name) = state.withLock { ($0.storeState.upload ?? "", $0.name) }
        let key = client.address.key(state.withLock { self.uploadKey($0) })
        // The completion gives the name, so it would be too late to read the object back.
        guard whole.checksum == nil else {
            await discard(soon: false)
            throw .failed(
                Failure(.io, "the upload began without a digest, so it cannot be verified: the file is fetched again"))
        }
        let naming: Naming
        do throws(TransferError) {
            naming = try await claiming(name, for: upload) { (claim) throws(TransferError) in
                try await self.assemble(upload, key, whole.size, name, claim)
            }
        } catch {
            if case .failed(let failure) = error, failure.code == .fileExists { await discardOwn() }
            throw error
        }
        switch naming {
        case .placed(let head): return stored(head, checksum: nil)
        case .fenced: return .fenced
        case .renumber: throw await nameIsTaken()
        case .deleted:
            await discardOwn()
            throw .failed(
                Failure(
                    .io,
                    "the object store has deleted \(name.path) right after its upload, because a request of an earlier run "
                        + "came late: the file is fetched again"))
        }
    }

    /// The digest of the bytes that have arrived in order; nil if none is required, or if it was not computed: then the
    /// object must be read back.
    ///
    /// - Throws: `checksum_mismatch`. The partial file is discarded first.
    private func verifiedChecksum(_ whole: WholeFile) async throws(TransferError) -> String? {
        guard let wanted = whole.checksum, let digest = state.withLock({ $0.digest?.result(of: whole.size) }) else {
            return nil
        }
        guard digest == wanted.digest else { throw await mismatch(digest, whole) }
        return "\(wanted.algorithm.rawValue):\(digest)"
    }

    /// A whole and verified object that has no name yet.
    struct HiddenObject: Sendable {
        let key: String
        let checksum: String?
    }

    /// Completes the upload under its hidden key, and verifies the object. nil if another run has the job.
    func completeHidden(_ whole: WholeFile) async throws(TransferError) -> HiddenObject? {
        let upload = state.withLock { $0.storeState.upload ?? "" }
        let key = client.address.key(state.withLock { self.uploadKey($0) })
        var checksum = try await verifiedChecksum(whole)
        if state.withLock({ $0.isAssembled }) {
            guard try await hasJob() else { return nil }
        } else {
            guard case .placed = try await assemble(upload, key, whole.size, nil, nil) else { return nil }
            state.withLock { $0.isAssembled = true }
        }
        if checksum == nil, let wanted = whole.checksum {
            let digest = try await readBack(key, wanted.algorithm, whole.size)
            guard digest == wanted.digest else { throw await mismatch(digest, whole) }
            checksum = "\(wanted.algorithm.rawValue):\(digest)"
        }
        return HiddenObject(key: key, checksum: checksum)
    }

    /// Lets the operator's gate see the object. False if another run has the job.
    func passes(
        _ gate: @Sendable (GatedFile) async throws(TransferError) -> Void, _ object: HiddenObject, _ size: Int64
    ) async throws(TransferError) -> Bool {
        try await passes(gate, object.checksum) { (consume) throws(TransferError) in
            try await self.read(object.key, size) { bytes, _ in await consume(bytes) }
        }
    }

    /// Ceph locks an upload for ten minutes if its gateway dies during the completion. A wait costs less than fetching
    /// the file again.
    private static let completion = NamingLimits(tries: 5, busy: .seconds(660))

    /// Completes the upload: under `name`, or under its hidden key if there is none. HEAD, not the response to the
    /// request, decides whether that has succeeded.
    private func assemble(
        _ upload: String, _ key: String, _ size: Int64, _ name: ObjectName?, _ claim: NameClaim?
    ) async throws(TransferError) -> Naming {
        try await nameObject(
            name ?? ObjectName(chosen: hidden.whole, isGiven: true), by: .complete, size: size, isNumbered: false,
            checksFirst: true, claim: claim,
            limits: Self.completion,
            isPossible: { () throws(TransferError) in
                if try await self.isListed(upload, key, size) { return nil }
                // Some servers show a new object only after a while.
                if let head = try await self.verdict(key, size, within: Self.contradictionLimit) {
                    return .placed(head)
                }
                guard try await self.isStillOwner() else { return .fenced }
                throw await self.nameIsTaken(
                    or: "its upload was aborted: by another program, or by a rule of the bucket")
            }
        ) { (condition) throws(StoreError) in
            let parts = self.state.withLock { $0.etags.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } }
            return try await self.complete(upload, key, parts, size, condition)
        }
    }

    /// Sends the request, and then checks the object. An error of the request is thrown only if there is none.
    private func complete(
        _ upload: String, _ key: String, _ parts: [(number: Int, etag: String)], _ size: Int64,
        _ condition: NameCondition
    ) async throws(StoreError) -> ObjectHead? {
        var failure: StoreError?
        do throws(StoreError) { try await client.complete(upload, key, parts, condition) } catch { failure = error }
        do { if let head = try await verdict(key, size, within: .milliseconds(100)) { return head } } catch {
            throw StoreError(error)
        }
        guard let failure else { return nil }
        // A repeated request finds no upload if the first one was executed. The next check decides.
        let isUnclear = [.noSuchUpload, .noSuchObject, .permanent].contains(failure.kind)
        throw isUnclear
            ? StoreError(status: failure.status, code: failure.code, message: failure.message, kind: .transient)
            : failure
    }

    /// Whether the upload has exactly the parts that this run knows. False if the upload is gone: completed or aborted.
    ///
    /// - Throws: `io` if parts are lost, or if the upload has unknown parts. In the second case it is purged first.
    private func isListed(
        _ upload: String, _ key: String, _ size: Int64
    ) async throws(TransferError) -> Bool {
        guard let listed = try await listed(upload, key) else { return false }
        // Some servers list a part twice if it was uploaded twice.
        let found = Dictionary(grouping: listed, by: \.number)
        let etags = state.withLock { state in
            for number in state.partsWithoutMD5
            where !(found[number]?.contains { $0.etag == state.etags[number] } ?? true) {
                // The store has executed a repeated request last.
                let length = Int64(state.storeState.formula.range(of: number).clamped(to: 0..<size).count)
                if let last = found[number]?.last(where: { $0.size == length }) { state.etags[number] = last.etag }
            }
            return state.etags
        }
        guard found.keys.allSatisfy({ etags[$0] != nil }) else {
            throw await damaged("the upload has other parts than were uploaded")
        }
        let changed = found.filter { number, parts in !parts.contains { $0.etag == etags[number] } }
        guard changed.isEmpty else {
            throw .failed(
                Failure(
                    .io, "the object store has other bytes for \(changed.count) parts of an upload than it received"))
        }
        let lost = etags.keys.filter { found[$0] == nil }
        guard lost.isEmpty else {
            // Some servers still list a few parts of an upload that they have just completed. Otherwise the next run
            // fetches only the lost parts.
            if try await verdict(key, size, within: .milliseconds(100)) != nil { return false }
            throw .failed(
                Failure(.io, "the object store has lost \(lost.count) parts of an upload that it had acknowledged"))
        }
        return true
    }

    /// The parts that the store has of an upload; nil if the upload is gone: completed or aborted.
    private func listed(_ upload: String, _ key: String) async throws(TransferError) -> [ListedPart]? {
        do throws(StoreError) { return try await client.parts(of: upload, key) } catch {
            if error.kind == .noSuchUpload { return nil }
            throw error.transferError
        }
    }

    /// HEAD of the object; nil if it is missing or not of this generation. Repeats it for a while, because some servers
    /// show a new object later.
    private func verdict(
        _ key: String, _ size: Int64, within limit: Duration
    ) async throws(TransferError) -> ObjectHead? {
        let deadline = ContinuousClock.now + limit
        var pause = Duration.milliseconds(100)
        while true {
            if let head = try await headNow(key), head.mark?.generation == generation,
                head.mark?.job == request.key
            {
                guard head.size == size else {
                    throw .failed(
                        Failure(.io, "the object store made an object of \(head.size) bytes out of \(size)"))
                }
                return head
            }
            guard ContinuousClock.now + pause <= deadline else { return nil }
            do { try await Task.sleep(for: pause) } catch { throw .cancelled }
            pause = min(.seconds(2), pause * 2)
        }
    }

    private func headNow(_ key: String) async throws(TransferError) -> ObjectHead? {
        do { return try await client.head(key) } catch { throw error.transferError }
    }

    /// Another program or job has taken the upload's name. Discards the partial file and returns the error to throw.
    /// The next run chooses another name, if the job allows that.
    private func nameIsTaken(or why: String? = nil) async -> TransferError {
        let name = state.withLock { $0.name }
        let mayRename = request.mayNumber
        await discardOwn()
        if let why { return .failed(Failure(.io, why)) }
        guard mayRename else { return conflict(at: name) }
        return .failed(
            Failure(.io, "\(name.path) was created during the commit: the file is fetched again under another name"))
    }

    // MARK: Under a hidden key

    /// Reads an object back. Returns its digest in hexadecimal digits.
    private func readBack(
        _ key: String, _ algorithm: Job.Checksum.Algorithm, _ size: Int64
    ) async throws(TransferError) -> String {
        let digest = InOrderDigest(algorithm)
        try await read(key, size) { bytes, start in
            await self.store.threads.run { bytes.withUnsafeBytes { digest.update($0, at: start) } }
            return true
        }
        return digest.result(of: size) ?? ""
    }

    /// Reads an object in pieces, until `consume` returns false.
    private func read(
        _ key: String, _ size: Int64, _ consume: @Sendable ([UInt8], _ start: Int64) async -> Bool
    ) async throws(TransferError) {
        let step: Int64 = 8 << 20
        for start in stride(from: Int64(0), to: size, by: Int(step)) {
            let memory = try await reserve(Int(step))
            defer { store.memory.release(memory) }
            if Task.isCancelled { throw .cancelled }
            let end = min(size, start + step)
            let bytes: [UInt8]?
            do throws(StoreError) {
                bytes = try await client.get(key, start..<end, limit: Int(step) + 1)
            } catch { throw error.transferError }
            guard let bytes, Int64(bytes.count) == end - start else {
                throw await damaged("the object cannot be read back")
            }
            guard await consume(bytes, start) else { return }
        }
    }

    /// Memory for bytes that are read back. Polls for as long as there is none.
    private func reserve(_ bytes: Int) async throws(TransferError) -> PartMemory.Reservation {
        while true {
            if let memory = store.memory.reserve(bytes, for: owner, spill: {}, orCall: nil) {
                store.memory.markUploading(memory)
                return memory
            }
            do { try await Task.sleep(for: .milliseconds(20)) } catch { throw .cancelled }
        }
    }

    /// Copies the verified object to its final name, on the server. An upload of copied parts does that: its completion
    /// can have a condition, and its abort is a fence.
    func copyToName(_ object: HiddenObject, _ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        let (source, checksum) = (object.key, object.checksum)
        let chosen = state.withLock { $0.name }
        var candidates = candidates(from: chosen)
        while let (name, isNumbered) = try await candidates.next() {
            if let head = try await head(name.path) {
                switch collision(with: head, isNumbered: isNumbered) {
                case .isOurs:
                    state.withLock { $0.name = name }
                    return stored(head, checksum: checksum)
                case .replace: break
                case .refuse: throw conflict(at: name)
                case .renumber: continue
                }
            }
            guard try await hasJob() else { return .fenced }
            state.withLock { $0.name = name }
            var naming = try await copy(source, to: name, isNumbered: isNumbered, size: whole.size)
            // The verified object is still there.
            if case .deleted = naming {
                naming = try await copy(source, to: name, isNumbered: isNumbered, size: whole.size)
            }
            switch naming {
            case .placed(let head): return stored(head, checksum: checksum)
            case .fenced: return .fenced
            case .renumber: continue
            case .deleted:
                throw .failed(Failure(.io, "the object store deletes \(name.path) right after each of its uploads"))
            }
        }
        throw conflict(at: chosen)
    }

    /// Copies the object `source` to `name`.
    private func copy(
        _ source: String, to name: ObjectName, isNumbered: Bool, size: Int64
    ) async throws(TransferError) -> Naming {
        let key = client.address.key(name.path)
        let (upload, parts): (String, [(number: Int, etag: String)])
        do throws(StoreError) {
            upload = try await begin(key)
            parts = try await client.copy(source, size: size, to: upload, key)
        } catch { throw error.transferError }
        state.withLock { $0.copyUpload = upload }
        let naming = try await claiming(name, for: upload) { (claim) throws(TransferError) in
            var isSent = false
            return try await self.nameObject(
                name, by: .complete, size: size, isNumbered: isNumbered, checksFirst: true, claim: claim,
                limits: Self.completion,
                isPossible: { () throws(TransferError) in
                    guard isSent, try await self.listed(upload, key) == nil else { return nil }
                    return try await self.verdict(key, size, within: Self.contradictionLimit).map(Naming.placed)
                        ?? .deleted
                }
            ) { (condition) throws(StoreError) in
                isSent = true
                return try await self.complete(upload, key, parts, size, condition)
            }
        }
        if case .renumber = naming { try? await client.abort(upload, key) }
        return naming
    }
}
