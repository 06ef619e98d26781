import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

// Received bytes are collected into parts, and the parts are uploaded.
extension ObjectPartial {
    /// Accepts all of the bytes, or none. Called on the engine's thread.
    func take(
        _ bytes: UnsafeRawPointer, _ count: Int, at offset: Int64, wake: @escaping @Sendable () async -> Bool
    ) -> SinkResult {
        let whole = offset..<offset + Int64(count)
        let (result, due) = state.withLock { state -> (SinkResult, [(PartBuffer, Int)]) in
            if let error = state.error { return (.failed(error), []) }
            guard state.phase == .open else { return (.failed(.cancelled), []) }
            let formula = state.storeState.formula
            let numbers = formula.parts(in: whole)
            guard numbers.upperBound <= PartFormula.maxParts else {
                return (.failed(TransferError(.tooLarge, "the file has more bytes than an object may have")), [])
            }
            for number in numbers where !state.received.contains(whole.clamped(to: formula.range(of: number))) {
                guard makeBuffer(number, &state, wake) else { return (.wait, []) }
            }
            var due: [(PartBuffer, Int)] = []
            for number in numbers {
                let part = formula.range(of: number)
                // Bytes that are already there are not written again.
                let missing = state.received.missing(in: whole.clamped(to: part))
                guard !missing.isEmpty, let buffer = state.buffers[number] else { continue }
                for piece in missing {
                    buffer.copy(bytes + Int(piece.lowerBound - offset), to: piece)
                    state.received.insert(piece)
                }
                if !formula.isSingle, state.received.contains(part) {
                    buffer.isClosed = true
                    due.append((buffer, state.work.begin()))
                }
            }
            return (.accepted, due)
        }
        for (buffer, number) in due {
            store.memory.markUploading(buffer.reservation)
            let digest = state.withLock { $0.digest }
            start(number) { [self] in await upload(buffer, digest) }
        }
        return result
    }

    /// Makes sure that a part has a buffer that accepts bytes. False if there is no memory now, or if the part's buffer
    /// is closed because its bytes are on their way to the store. Then `wake` is called later.
    private func makeBuffer(
        _ number: Int, _ state: inout State, _ wake: (@Sendable () async -> Bool)?
    ) -> Bool {
        if let buffer = state.buffers[number] {
            if buffer.isClosed, let wake { store.memory.wait(wake) }
            return !buffer.isClosed
        }
        let range = state.storeState.formula.range(of: number)
        let reservation = store.memory.reserve(
            range.count, for: owner, spill: { [weak self] in self?.spill(number) }, orCall: wake)
        guard let reservation else { return false }
        state.buffers[number] = PartBuffer(number, range, reservation, in: store.memory.pages)
        return true
    }

    /// A buffer for a part. Polls for as long as there is no memory.
    func buffer(for number: Int) async throws(TransferError) -> PartBuffer {
        while true {
            let buffer = state.withLock { state in
                makeBuffer(number, &state, nil) ? state.buffers[number] : nil
            }
            if let buffer { return buffer }
            do { try await Task.sleep(for: .milliseconds(20)) } catch { throw .cancelled }
        }
    }

    /// Runs `body` as the work to which `PartWork.begin` has assigned `number`.
    func start(_ number: Int, _ body: @escaping @Sendable () async -> Void) {
        let task = Task(executorPreference: client.engine.executor) { [self] in
            await body()
            let waiting = state.withLock { $0.work.end(number) }
            for continuation in waiting { continuation.resume() }
        }
        state.withLock { $0.work.record(task, number) }
    }

    /// Returns when no upload of a part or tail is in progress.
    func waitForWork() async {
        await withCheckedContinuation { continuation in
            if !state.withLock({ $0.work.wait(continuation) }) { continuation.resume() }
        }
    }

    func fail(_ error: TransferError) { state.withLock { $0.error = $0.error ?? error } }

    private func drop(_ buffer: PartBuffer) {
        state.withLock { if $0.buffers[buffer.number] === buffer { $0.buffers[buffer.number] = nil } }
        store.memory.release(buffer.reservation)
    }

    // MARK: A part

    /// Uploads a complete part and releases its buffer. An error becomes the error of the partial file.
    func upload(_ buffer: PartBuffer, _ digest: InOrderDigest? = nil) async {
        do throws(TransferError) { try await uploadNow(buffer, buffer.range, digest) } catch { fail(error) }
        drop(buffer)
    }

    /// - Parameter range: The bytes of the part. The last part of a file of unknown length ends where the file does.
    func uploadNow(
        _ buffer: PartBuffer, _ range: Range<Int64>, _ digest: InOrderDigest?
    ) async throws(TransferError) {
        try await fill(buffer, range)
        let md5 = await store.threads.run {
            digest?.update(buffer.bytes(range), at: range.lowerBound)
            return Digest.md5(buffer.bytes(range))
        }
        do throws(StoreError) {
            let upload = try await uploadID()
            let key = client.address.key(state.withLock { uploadKey($0) })
            let etag = try await client.put(part: buffer.number, of: upload, key, buffer.body(range), md5: md5)
            state.withLock { state in
                if etag.lowercased() != Hexadecimal.text(md5) { state.partsWithoutMD5.insert(buffer.number) }
                state.storeState.parts[buffer.number] = PartMark(etag: etag)
                state.etags[buffer.number] = etag
                state.storeState.tails.removeAll { $0.part == buffer.number }
            }
        } catch {
            // A later run would find the part in the upload, and would not know that it is wrong.
            if error.code == BucketClient.otherPart {
                throw await damaged(
                    "by its ETag, part \(buffer.number) has other bytes in the object store than were sent",
                    so: "the file is fetched again")
            }
            throw error.kind == .noSuchUpload
                ? .failed(
                    Failure(.io, "the upload was aborted: by another run of this job, or by a rule of the bucket"))
                : error.transferError
        }
    }

    /// The path of the object that the upload makes: hidden if its digest must be verified first, else the final path.
    func uploadKey(_ state: State) -> String { state.storeState.isHidden ? hidden.whole : state.name.path }

    /// Reads the part's tails back into its buffer, and checks their MD5.
    ///
    /// - Throws: `io` if a tail is missing or has changed, or if bytes of `range` are missing afterwards.
    func fill(_ buffer: PartBuffer, _ range: Range<Int64>) async throws(TransferError) {
        let tails = state.withLock { state in
            buffer.present.contains(range) ? [] : state.storeState.tails.filter { $0.part == buffer.number }
        }
        for tail in tails {
            let bytes: [UInt8]?
            do throws(StoreError) {
                bytes = try await client.get(
                    client.address.key(hidden.tail(tail.name)), limit: Int(tail.bytes.count) + 1)
            } catch { throw error.transferError }
            let isRight = await store.threads.run {
                bytes.map { Int64($0.count) == tail.bytes.count && Hexadecimal.text(Digest.md5($0)) == tail.md5 }
                    ?? false
            }
            guard isRight, let bytes else { throw await damaged("a tail is gone or has changed") }
            state.withLock { _ in
                var position = 0
                bytes.withUnsafeBytes { all in
                    for interval in tail.bytes.intervals {
                        for piece in buffer.present.missing(in: interval) {
                            let start = position + Int(piece.lowerBound - interval.lowerBound)
                            buffer.copy(all.baseAddress! + start, to: piece)
                            buffer.saved.insert(piece)
                        }
                        position += interval.count
                    }
                }
            }
        }
        guard state.withLock({ _ in buffer.present.contains(range) }) else {
            throw await damaged("bytes of a part are missing")
        }
    }

    /// The partial file can never be completed, so this purges it, and the next run restarts. Returns the error.
    func damaged(
        _ why: String, so more: String = "another program has changed what is beneath \(HiddenKeys.root)"
    ) async -> TransferError {
        let error = TransferError.failed(Failure(.io, "\(why): \(more)"))
        // Before other parts meet an upload that is gone.
        fail(error)
        let isNamed = state.withLock { $0.phase == .placed }
        if !isNamed, (try? await hasJob()) != false { await store.purge(hidden, completed: []) }
        return error
    }

    // MARK: The upload

    /// The id of the multipart upload. The first call creates the upload; concurrent calls wait for it.
    func uploadID() async throws(StoreError) -> String {
        let (known, task) = state.withLock { state -> (String?, Task<Result<String, StoreError>, Never>?) in
            if let upload = state.storeState.upload { return (upload, nil) }
            if let creating = state.creating { return (nil, creating) }
            let task = Task { await self.create() }
            (state.creating, state.hasHidden) = (task, true)
            return (nil, task)
        }
        if let known { return known }
        return try await task!.value.get()
    }

    private func create() async -> Result<String, StoreError> {
        do throws(StoreError) {
            // A run that was stopped for long must not purge the generations of later runs.
            try await request.checkLease()
            // Purging the older generations is the fence: none of their uploads can be completed any more.
            if !request.isNew { try await store.purge(job: request.key, but: generation) }
            try await own()
            let key = client.address.key(state.withLock { uploadKey($0) })
            let upload = try await begin(key)
            state.withLock { $0.storeState.upload = upload }
            return .success(upload)
        } catch {
            state.withLock { $0.creating = nil }
            return .failure(error)
        }
    }

    /// Begins an upload and records it. An intent is recorded before each try, so that it proves whose upload that is
    /// if the response is lost.
    func begin(_ key: String) async throws(StoreError) -> String {
        let upload = try await client.create(key, mark: newMark) { () throws(StoreError) in
            let nonce = String(UInt64.random(in: 0...(.max)), radix: 16)
            try await client.put(client.address.key(hidden.intent(nonce)), text: key)
        }
        try await client.put(client.address.key(hidden.upload(upload)), text: key)
        return upload
    }

    var newMark: ObjectMark {
        ObjectMark(job: request.key, generation: generation, time: UnixTime.milliseconds * 1_000_000)
    }

    /// Writes this run's token to the generation's `owner` object, before anything else of the generation is in the
    /// store. A run that takes the generation over writes its own token.
    ///
    /// - Throws: `fenced` if the object has another run's token.
    func own() async throws(StoreError) {
        state.withLock { $0.hasHidden = true }
        let key = client.address.key(hidden.owner)
        let bytes = Array(request.runToken.utf8)
        if store.knows(.create) {
            do throws(StoreError) {
                try await client.put(key, RequestMemory(bytes), md5: Digest.md5(bytes), ifAbsent: true)
                return
            } catch {
                switch error.kind {
                case .precondition: break
                case .unknownRequest: store.lacks(.create)
                default: throw error
                }
            }
        }
        // Without If-None-Match, the object is read before the write.
        let owner = try await client.get(key, limit: 4096)
        if owner == bytes { return }
        guard owner == nil, !store.knows(.create) else { throw .fenced }
        try await client.put(key, text: request.runToken)
    }

    func isOwner() async throws(StoreError) -> Bool {
        try await client.get(client.address.key(hidden.owner), limit: 4096).map { $0 == Array(request.runToken.utf8) }
            ?? false
    }

    // MARK: Tails

    /// Puts the bytes of a part that are in no tail yet into a new tail.
    func save(_ buffer: PartBuffer) async throws(TransferError) {
        let fresh = state.withLock { _ in buffer.fresh }
        guard !fresh.isEmpty else { return }
        let body = buffer.body(fresh)
        let md5 = await store.threads.run { Digest.md5(body.bytes) }
        let name = "\(buffer.number).\(String(UInt64.random(in: 0...(.max)), radix: 16))"
        do throws(StoreError) {
            try await own()
            try await client.put(client.address.key(hidden.tail(name)), body, md5: md5)
        } catch { throw error.transferError }
        state.withLock { state in
            state.storeState.tails.append(
                .init(part: buffer.number, name: name, bytes: fresh, md5: Hexadecimal.text(md5)))
            for interval in fresh.intervals { buffer.saved.insert(interval) }
            buffer.lastSaved = .now
        }
    }

    /// Saves an incomplete part as a tail and releases its buffer, because others need the memory.
    private func spill(_ number: Int) {
        let (buffer, task) = state.withLock { state -> (PartBuffer?, Int) in
            guard let buffer = state.buffers[number], !buffer.isClosed, state.phase == .open else { return (nil, 0) }
            buffer.isClosed = true
            return (buffer, state.work.begin())
        }
        guard let buffer else { return }
        start(task) { [self] in
            do throws(TransferError) { try await save(buffer) } catch { fail(error) }
            drop(buffer)
        }
    }

    /// Saves incomplete parts as tails. With `releasing`, their buffers are released.
    func save(_ buffers: [PartBuffer], releasing: Bool) async throws(TransferError) {
        let results = await withTaskGroup(of: Result<Void, TransferError>.self) { group in
            for buffer in buffers {
                group.addTask { [self] in
                    do throws(TransferError) { try await save(buffer) } catch { return .failure(error) }
                    if releasing { drop(buffer) }
                    return .success(())
                }
            }
            var results: [Result<Void, TransferError>] = []
            for await result in group { results.append(result) }
            return results
        }
        for result in results { try result.get() }
    }
}

extension StoreError {
    static let fenced = StoreError(
        status: 412, code: "fenced", message: "another run has the partial file", kind: .noSuchUpload)
}

extension FileRequest {
    /// - Throws: `fenced` if the run has lost the job.
    func checkLease() async throws(StoreError) {
        guard await lease.holds() else { throw .fenced }
    }
}
