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
        let formula = state.withLock { $0.journal.formula }
        let digest = state.withLock { $0.digest }
        for number in 1...formula.part(at: max(0, size - 1)) {
            guard state.withLock({ $0.journal.parts[number] == nil }) else { continue }
            let range = formula.range(of: number).clamped(to: 0..<size)
            guard state.withLock({ $0.taken.contains(range) }) else {
                throw await damaged("bytes of a part are missing")
            }
            let buffer = try await buffer(for: number)
            defer {
                state.withLock { $0.buffers[number] = nil }
                store.memory.give(buffer.reservation)
            }
            try await uploadNow(buffer, range, digest)
        }
    }

    func complete(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        let (upload, key, isHidden) = state.withLock { state in
            (state.journal.upload ?? "", client.address.key(self.uploadKey(state)), state.journal.isHidden)
        }
        var checksum: String?
        var isJudged = whole.checksum == nil
        if let wanted = whole.checksum, let digest = state.withLock({ $0.digest?.result(of: whole.size) }) {
            guard digest == wanted.digest else { throw await mismatch(digest, whole) }
            (checksum, isJudged) = ("\(wanted.algorithm.rawValue):\(digest)", true)
        }
        guard await mayName() else { return .fenced }
        guard try await isStillOwner() else { return .fenced }
        if !state.withLock({ $0.isAssembled }) {
            switch try await assemble(upload, key, whole.size) {
            case .placed(let head) where !isHidden: return stored(head, checksum: checksum)
            case .placed: state.withLock { $0.isAssembled = true }
            case .fenced: return .fenced
            }
        }
        if !isJudged, let wanted = whole.checksum {
            let digest = try await readBack(key, wanted.algorithm, whole.size)
            guard digest == wanted.digest else { throw await mismatch(digest, whole) }
            checksum = "\(wanted.algorithm.rawValue):\(digest)"
        }
        return try await copyToName(key, whole, checksum: checksum)
    }

    enum Assembly {
        case placed(ObjectHead)
        /// Another run has aborted the upload.
        case fenced
    }

    /// Limits for repeated requests to complete an upload: `tries` in general, `patience` while the server answers 5xx.
    /// Ceph locks an upload for ten minutes if its gateway dies during the completion. To wait costs less than to fetch
    /// the file again.
    private static let completion = (tries: 5, patience: Duration.seconds(660), longest: Duration.seconds(10))

    /// Completes the upload. HEAD, not the answer to the request, decides whether that has succeeded.
    private func assemble(_ upload: String, _ key: String, _ size: Int64) async throws(TransferError) -> Assembly {
        let etags = state.withLock { $0.etags }
        let isHidden = state.withLock { $0.journal.isHidden }
        let deadline = ContinuousClock.now + Self.completion.patience
        for attempt in 1... {
            if try await !isListed(upload, key, etags, size) {
                return try await verdict(key, size).map(Assembly.placed) ?? .fenced
            }
            var ifAbsent = false
            if !isHidden, let head = try await headNow(key) {
                switch collision(with: head, isOther: false) {
                case .isOurs: return .placed(head)
                case .replace: break
                case .renumber, .refuse: throw await taken()
                }
            } else {
                ifAbsent = !isHidden && store.hasConditions
            }
            guard await mayName() else { return .fenced }
            let refusal: StoreRefusal?
            do {
                try await client.complete(
                    upload, key, etags.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }, ifAbsent: ifAbsent)
                refusal = nil
            } catch { refusal = error }
            if let head = try await verdict(key, size) { return .placed(head) }
            switch refusal?.meaning {
            case .precondition: throw await taken()
            case .unknownRequest: store.lacksConditions()
            case .cancelled: throw .cancelled
            case .denied, .noSuchBucket: throw refusal!.error
            default: break
            }
            let isBusy = refusal.map { $0.status >= 500 } ?? false
            guard attempt < Self.completion.tries || isBusy && ContinuousClock.now < deadline else {
                throw refusal?.error ?? .failed(Failure(.io, "the object store does not complete an upload"))
            }
            let pause = min(Self.completion.longest, .milliseconds(100 << min(attempt, 10)))
            do { try await Task.sleep(for: pause) } catch { throw .cancelled }
        }
        return .fenced
    }

    /// Whether the upload has exactly the parts that this run knows. False if the upload is gone: completed or aborted.
    ///
    /// - Throws: `io` if parts are lost, or if the upload has unknown parts. In the second case it is purged first.
    private func isListed(
        _ upload: String, _ key: String, _ etags: [Int: String], _ size: Int64
    ) async throws(TransferError) -> Bool {
        let listed: [ListedPart]
        do throws(StoreRefusal) { listed = try await client.parts(of: upload, key) } catch {
            if error.meaning == .noSuchUpload { return false }
            throw error.error
        }
        // Some servers list a part twice if it was uploaded twice.
        let found = Dictionary(grouping: listed, by: \.number)
        guard found.allSatisfy({ number, parts in parts.contains { $0.etag == etags[number] } }) else {
            throw await damaged("the upload has other parts than were uploaded")
        }
        let lost = etags.keys.filter { found[$0] == nil }
        guard lost.isEmpty else {
            // Some servers still list a few parts of an upload that they have just completed. Otherwise the next run
            // fetches only the lost parts.
            if try await verdict(key, size) != nil { return false }
            throw .failed(
                Failure(.io, "the object store has lost \(lost.count) parts of an upload that it had acknowledged"))
        }
        return true
    }

    /// HEAD of the object; nil if it is missing or not of this generation. Asks twice, because some servers show a new
    /// object only a moment later.
    private func verdict(_ key: String, _ size: Int64) async throws(TransferError) -> ObjectHead? {
        for attempt in 0...1 {
            if let head = try await headNow(key), head.mark?.generation == generation,
                head.mark?.job == request.key
            {
                guard head.size == size else {
                    throw .failed(
                        Failure(.io, "the object store made an object of \(head.size) bytes out of \(size)"))
                }
                return head
            }
            if attempt == 0 { try? await Task.sleep(for: .milliseconds(100)) }
        }
        return nil
    }

    private func headNow(_ key: String) async throws(TransferError) -> ObjectHead? {
        do { return try await client.head(key) } catch { throw error.error }
    }

    /// Another program or job has taken the upload's name. Discards the partial file and returns the error to throw.
    /// The next run chooses another name, if the job allows that.
    private func taken() async -> TransferError {
        let name = state.withLock { $0.name }
        let mayRename = request.mayNumber
        await discard(soon: false)
        guard mayRename else { return name.inTheWay }
        return .failed(Failure(.io, "\(name.path) came while this was under way: it is fetched again for another name"))
    }

    // MARK: Under a hidden key

    /// Reads an object back. Returns its digest in hexadecimal digits.
    private func readBack(
        _ key: String, _ algorithm: Job.Checksum.Algorithm, _ size: Int64
    ) async throws(TransferError) -> String {
        let digest = InOrderDigest(algorithm)
        let step: Int64 = 8 << 20
        for start in stride(from: Int64(0), to: size, by: Int(step)) {
            if Task.isCancelled { throw .cancelled }
            let end = min(size, start + step)
            let bytes: [UInt8]?
            do throws(StoreRefusal) {
                bytes = try await client.get(key, start..<end, limit: Int(step) + 1)
            } catch { throw error.error }
            guard let bytes, Int64(bytes.count) == end - start else {
                throw await damaged("the object cannot be read back")
            }
            await store.threads.run { bytes.withUnsafeBytes { digest.update($0, at: start) } }
        }
        return digest.result(of: size) ?? ""
    }

    /// Copies the verified object to its final name, on the server.
    private func copyToName(
        _ key: String, _ whole: WholeFile, checksum: String?
    ) async throws(TransferError) -> CommitOutcome {
        let mark = newMark
        let chosen = state.withLock { $0.name }
        var number = 0
        while number <= ObjectName.mostNumber {
            let name = chosen.numbered(number)
            if let head = try await head(name.path) {
                switch collision(with: head, isOther: number > 0) {
                case .isOurs:
                    state.withLock { $0.name = name }
                    return stored(head, checksum: checksum)
                case .replace: break
                case .refuse: throw name.inTheWay
                case .renumber:
                    number += 1
                    continue
                }
            }
            guard await mayName() else { return .fenced }
            guard try await isStillOwner() else { return .fenced }
            state.withLock { $0.name = name }
            do throws(StoreRefusal) {
                try await client.copy(key, to: client.address.key(name.path), size: whole.size, mark: mark)
            } catch {
                if try await verdict(client.address.key(name.path), whole.size) == nil { throw error.error }
            }
            guard let head = try await verdict(client.address.key(name.path), whole.size) else {
                throw .failed(Failure(.io, "the object store did not copy an object"))
            }
            return stored(head, checksum: checksum)
        }
        throw chosen.inTheWay
    }
}
