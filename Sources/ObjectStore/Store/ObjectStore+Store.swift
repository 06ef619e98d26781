package import HaulContract
import HaulExecutors
package import HaulHTTP
package import HaulStorage

// The `Store` protocol for a bucket.
extension ObjectStore: DurableStore, SourceFolder {
    package var name: String { client.address.description }

    package var waitsFor: String { "store" }

    /// Writes a probe, unless a write has succeeded within five seconds.
    package func fault() async -> String? {
        if let seconds = client.secondsSinceWriting, seconds < 5 { return nil }
        do throws(StoreError) {
            try await client.put(client.address.key(HiddenKeys.probe), text: "", tries: 2)
            return nil
        } catch { return error.failure.message }
    }

    package func begin(_ request: FileRequest, generation: String, suggested: String) -> any Partial {
        ObjectPartial(self, request, generation: generation, suggested: suggested)
    }

    package func resume(_ request: FileRequest, from resume: ResumePoint) async throws(TransferError) -> Remainder {
        do throws(StoreError) { return try await remains(request, resume) } catch { throw error.transferError }
    }

    private func remains(_ request: FileRequest, _ resume: ResumePoint) async throws(StoreError) -> Remainder {
        let hidden = HiddenKeys(job: request.key, generation: resume.generation)
        if !resume.generation.isEmpty {
            // From now on, earlier runs are fenced: they find another owner, and do not name the object.
            try await client.put(
                client.address.key(hidden.owner), text: request.runToken, checking: request.checkLease)
            if let placed = try await placed(resume, request) { return try await whole(placed, request, resume) }
        }
        let objects = try await client.list(client.address.key(HiddenKeys.prefix(ofJob: request.key))).objects
        guard !resume.generation.isEmpty, let found = try await partial(request, resume, hidden, objects) else {
            if !resume.generation.isEmpty, let placed = try await placed(resume, request) {
                return try await whole(placed, request, resume)
            }
            try await request.checkLease()
            try await purge(job: request.key, but: nil)
            return .nothing
        }
        // The requests may have been retried for longer than the lease. Then a later run has a generation of its own.
        try await request.checkLease()
        // This run finds the object if it comes late, and a later removal of hidden objects must not delete it.
        let naming = client.address.key(hidden.naming)
        if objects.contains(where: { $0.key == naming }) { try await client.delete(naming) }
        try await abort(in: hidden, but: PartsRecord(resume.storeState)?.upload, objects)
        try await purge(job: request.key, but: resume.generation)
        return .partial(found)
    }

    /// The run that named the object died before it could clean up, so this run cleans up. If it dies as well, HEAD
    /// still finds the object.
    private func whole(
        _ placed: StoredFile, _ request: FileRequest, _ resume: ResumePoint
    ) async throws(StoreError) -> Remainder {
        try await request.checkLease()
        try await purge(job: request.key, but: resume.generation)
        let completed = Set([PartsRecord(resume.storeState)?.upload].compactMap(\.self))
        await purge(HiddenKeys(job: request.key, generation: resume.generation), completed: completed)
        await removeClaim(placed.file, job: request.key, generation: resume.generation)
        return .placed(placed)
    }

    /// The object that an earlier run has named, if its result did not reach Redis.
    private func placed(_ resume: ResumePoint, _ request: FileRequest) async throws(StoreError) -> StoredFile? {
        guard let head = try await client.head(client.address.key(resume.file)), let mark = head.mark,
            mark.job == request.key, mark.generation == resume.generation
        else { return nil }
        return StoredFile(
            file: resume.file, bytes: head.size, identity: mark.identity, modified: mark.time, checksum: nil)
    }

    /// The partial object that the store state names, with the parts that the store has accepted since the state was
    /// written; nil if it cannot be continued.
    private func partial(
        _ request: FileRequest, _ resume: ResumePoint, _ hidden: HiddenKeys, _ objects: [ListedObject]
    ) async throws(StoreError) -> ObjectPartial? {
        guard var storeState = PartsRecord(resume.storeState), storeState.total == resume.entity.total,
            storeState.offsets == resume.offsets
        else { return nil }
        if request.isExamined, !storeState.formula.isSingle {
            // An upload that began without a digest or gate gives the object its name as soon as it is complete.
            guard storeState.isHidden || storeState.upload == nil else { return nil }
            storeState.isHidden = true
        }
        let sizes = Dictionary(objects.map { ($0.key, $0.size) }) { $1 }
        storeState.tails.removeAll { sizes[client.address.key(hidden.tail($0.name))] != $0.bytes.count }
        guard let upload = storeState.upload else {
            guard !storeState.tails.isEmpty else { return nil }
            return ObjectPartial(self, request, continuing: resume, storeState, etags: [:], isAssembled: false)
        }
        let key = client.address.key(storeState.isHidden ? hidden.whole : resume.file)
        let listed: [ListedPart]
        do throws(StoreError) { listed = try await client.parts(of: upload, key) } catch {
            guard error.kind == .noSuchUpload else { throw error }
            // The upload may have been completed, but not copied to its final name yet.
            guard storeState.isHidden, let head = try await client.head(key), head.size == storeState.total,
                head.mark?.generation == resume.generation
            else { return nil }
            return ObjectPartial(self, request, continuing: resume, storeState, etags: [:], isAssembled: true)
        }
        guard let etags = storeState.adopt(listed), !storeState.offsets.isEmpty else { return nil }
        return ObjectPartial(self, request, continuing: resume, storeState, etags: etags, isAssembled: false)
    }

    package func held(
        _ file: CompletedFile, for request: FileRequest, fencing: Bool
    ) async throws(TransferError) -> HeldFile? {
        do throws(StoreError) {
            guard let head = try await client.head(client.address.key(file.file)), head.matches(file.identity) else {
                return nil
            }
            if fencing {
                try await request.checkLease()
                // The sweep finds what stays.
                try? await purge(job: request.key, but: nil)
            }
            return HeldFile()
        } catch { throw error.transferError }
    }

    package func digest(
        of file: StoredFile, _ algorithm: Job.Checksum.Algorithm
    ) async throws(TransferError) -> String? {
        do throws(TransferError) {
            let object = try await ObjectSource(file.file, in: client)
            guard object.version.size == file.bytes else { return nil }
            let digest = StreamDigest(algorithm)
            for start in stride(from: 0, to: file.bytes, by: Int(object.readSize)) {
                if Task.isCancelled { throw .cancelled }
                let bytes = try await object.read(start..<min(start + object.readSize, file.bytes))
                await threads.run { digest.update(bytes) }
            }
            return digest.hexadecimal()
        } catch {
            guard case .failed(let failure) = error, [.sourceMissing, .sourceChanged].contains(failure.code) else {
                throw error
            }
            return nil
        }
    }

    package func source(_ path: String) async throws(TransferError) -> any SourceFile {
        try await ObjectSource(path, in: client)
    }

    // MARK: Objects that no run holds

    package func discard(_ location: PartialLocation) async {
        guard location.name != Self.nothingHidden else { return }
        let hidden = HiddenKeys(job: location.key, generation: location.generation)
        await purge(hidden, completed: [])
        await removeClaim(location.file, job: location.key, generation: location.generation)
    }

    package func withdrawUnanswered(_ location: PartialLocation) async {
        guard location.name != Self.nothingHidden else { return }
        let hidden = HiddenKeys(job: location.key, generation: location.generation)
        guard let naming = try? await client.get(client.address.key(hidden.naming), limit: 4096) else { return }
        withdraw([String(decoding: naming, as: UTF8.self)], of: hidden, until: .now + ObjectPartial.executionLimit)
    }

    /// Deletes objects of a generation that requests without a response still make.
    func withdraw(
        _ keys: Set<String>, of hidden: HiddenKeys, unless completed: FinishedIdentity? = nil,
        until: ContinuousClock.Instant
    ) {
        inBackground { [self] in
            var pause = Duration.milliseconds(200)
            repeat {
                for key in keys {
                    await deleteFinal(key) { $0.isNamed(by: hidden, unless: completed) }
                }
                try? await Task.sleep(for: pause)
                pause = min(.seconds(5), pause * 2)
            } while ContinuousClock.now < until
        }
    }

    package func discardUnplaced(_ locations: [PartialLocation]) async {
        for location in locations { await discard(location) }
    }

    /// A PUT or a Complete that was sent under the lease may be executed after it, and another run may have recorded the
    /// cancel in between. A request without a response may still be executed now.
    package func withdraw(_ location: PartialLocation, unless completed: FinishedIdentity?) async {
        guard !location.mayHaveReplaced else { return }
        let (key, hidden) = (
            client.address.key(location.file), HiddenKeys(job: location.key, generation: location.generation)
        )
        await deleteFinal(key) { $0.isNamed(by: hidden, unless: completed) }
        withdraw([key], of: hidden, unless: completed, until: .now + ObjectPartial.executionLimit)
    }

    package func delete(_ file: String, _ identity: FinishedIdentity) async -> Bool {
        await deleteFinal(client.address.key(file)) { $0.matches(identity) }
    }

    /// Deletes a finished object, as long as it is the right one. Checks it again before each try.
    ///
    /// - Returns: Whether the object is gone, or another one has its name. False if that is not known.
    @discardableResult
    func deleteFinal(_ key: String, where isRight: @Sendable (ObjectHead) -> Bool) async -> Bool {
        var last: NameCondition?
        var (isConditional, isBare) = (true, false)
        for attempt in 1...RequestBackoff.tries {
            let found: ObjectHead?
            let seen: ContinuousClock.Instant
            do throws(StoreError) {
                try await client.waitForTurn()
                seen = .now
                found = try await client.head(key)
            } catch { return false }
            guard let head = found, isRight(head) else { return true }
            let condition = isConditional && knows(.delete) ? head.etag.map(NameCondition.same) ?? .none : .none
            // The server says that the object has another ETag.
            if let last, last == condition { client.toggleETagQuotes(from: isBare) }
            last = nil
            isBare = client.sendsBareETags
            let sent = ContinuousClock.now
            var isWithoutResponse = false
            do throws(StoreError) {
                try await client.deleteFinal(key, condition, seen: seen)
                return true
            } catch {
                switch error.kind {
                case .noSuchObject: return true
                case .denied, .noSuchBucket, .cancelled, .full: return false
                case .unknownRequest, .permanent:
                    guard condition != .none else { return false }
                    if error.kind == .unknownRequest { lacks(.delete) }
                    // A proxy may refuse only this request.
                    isConditional = false
                case .precondition: last = condition
                default: isWithoutResponse = !(400..<500).contains(error.status)
                }
            }
            // A request that got no response must not delete an object that comes meanwhile.
            let pause =
                isWithoutResponse ? Self.expiry - (ContinuousClock.now - sent) : Duration.milliseconds(50 << attempt)
            do { try await Task.sleep(for: max(.zero, pause)) } catch { return false }
        }
        return false
    }

    /// After this time a deletion that was sent has expired, or has been executed.
    static let expiry = Duration.seconds(11)

    package func runDeferredWork() async { await finishBackgroundWork() }
}
