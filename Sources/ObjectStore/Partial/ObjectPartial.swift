import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

/// The partial file of a download into a bucket. Its complete parts are those of a multipart upload; incomplete parts
/// are in memory, or saved as objects that are called tails.
///
/// An object that fits into one part is written with one PutObject. The extensions beside this file handle the parts,
/// the checkpoints, the names and the commit.
final class ObjectPartial: Partial {
    enum Phase: Sendable { case unopened, open, placed, discarded }

    struct State: Sendable {
        var phase = Phase.unopened
        /// The name to which numbers are added.
        let unnumbered: ObjectName
        var name: ObjectName
        /// What the store has acknowledged.
        var storeState: PartsRecord
        var etags: [Int: String] = [:]
        var buffers: [Int: PartBuffer] = [:]
        /// The bytes that have arrived, whether they are in memory, in tails or in parts.
        var received = ByteIntervals()
        var error: TransferError?
        /// The store state in the last checkpoint of this run or an earlier one; nil if there is none.
        var reportedState: String?
        /// The last checkpoint only named the upload, so that another one is due.
        var hasMoreToReport = false
        var digest: InOrderDigest?
        var creating: Task<Result<String, StoreError>, Never>?
        /// Whether there may be hidden objects of this generation.
        var hasHidden = false
        /// The upload was completed under its hidden key.
        var isAssembled = false
        var work = PartWork()
        /// Parts whose ETags are not MD5s, so that a repeated request changes the ETag although the bytes are the same.
        var partsWithoutMD5: Set<Int> = []
        var unanswered: [Unanswered] = []
        /// A request that replaces another object was sent.
        var mayHaveReplaced = false
        /// The upload that copies the verified object to its name.
        var copyUpload: String?
    }

    let generation: String
    let store: ObjectStore
    let request: FileRequest
    let owner: UInt64
    let state: Mutex<State>

    var hidden: HiddenKeys { HiddenKeys(job: request.key, generation: generation) }
    var client: BucketClient { store.client }

    init(_ store: ObjectStore, _ request: FileRequest, generation: String, suggested: String) {
        (self.store, self.request, self.generation) = (store, request, generation)
        owner = store.memory.newOwner()
        let name = ObjectName(request.path, suggested: suggested)
        state = Mutex(State(unnumbered: name, name: name, storeState: PartsRecord(total: nil)))
    }

    /// Continues a partial file that an earlier run left.
    init(
        _ store: ObjectStore, _ request: FileRequest, continuing resume: ResumePoint, _ storeState: PartsRecord,
        etags: [Int: String], isAssembled: Bool
    ) {
        (self.store, self.request, generation) = (store, request, resume.generation)
        owner = store.memory.newOwner()
        let name = ObjectName(chosen: resume.file, isGiven: request.givesName)
        // A name that the server gave is not recorded without its number.
        let unnumbered = request.givesName ? ObjectName(request.path, suggested: "") : name
        var state = State(unnumbered: unnumbered, name: name, storeState: storeState)
        (state.phase, state.etags, state.hasHidden, state.isAssembled) = (.open, etags, true, isAssembled)
        // The store may have more or fewer parts than the store state in Redis names.
        (state.reportedState, state.received) = (resume.storeState, storeState.offsets)
        if isAssembled, let total = storeState.total { state.received = ByteIntervals([0..<total]) }
        self.state = Mutex(state)
    }

    deinit { for buffer in state.withLock({ $0.buffers.values.map(\.reservation) }) { store.memory.release(buffer) } }

    var location: PartialLocation? {
        state.withLock { state in
            guard state.phase != .unopened else { return nil }
            // Without hidden objects there is nothing to clean up later.
            let name = state.hasHidden || state.phase == .open ? nil : ObjectStore.nothingHidden
            var location = PartialLocation(
                file: state.name.path, key: request.key, generation: generation, name: name)
            location.mayHaveReplaced = state.mayHaveReplaced
            return location
        }
    }

    var written: ByteIntervals { state.withLock { $0.received } }
    var resumable: ByteIntervals { state.withLock { $0.storeState.offsets } }
    var error: TransferError? { state.withLock { $0.error } }
    var isHashing: Bool { state.withLock { $0.digest != nil } }
    var alignment: Int64 {
        let first = state.withLock { $0.storeState.formula.range(of: 1) }
        return max(1 << 20, first.upperBound - first.lowerBound)
    }
    /// Each connection fills a part of its own, and all these parts must fit into the memory of one file.
    var maxSinks: Int { max(1, store.memory.limitForFile / Int(alignment)) }

    func sink(at offset: Int64, wake: @escaping @Sendable () async -> Bool) -> any BodySink {
        PartSink(self, at: offset, wake: wake)
    }

    // MARK: Opening

    func open(
        total: Int64?, hashing digest: Job.Checksum.Algorithm?, with bytes: [UInt8]
    ) async throws(TransferError) {
        try prepare(total: total)
        let formula = PartFormula(total: total)
        if !formula.isSingle {
            // A short object gets its name when it is put.
            let name = try await freeName(state.withLock { $0.name })
            state.withLock { $0.name = name }
        }
        state.withLock { state in
            state.phase = .open
            state.storeState.isHidden = (digest != nil || request.isExamined) && !formula.isSingle
            state.digest = formula.isSingle ? nil : digest.map(InOrderDigest.init)
        }
        let sink = sink(at: 0) { true }
        for start in stride(from: 0, to: bytes.count, by: 16 << 10) {
            let piece = bytes[start..<min(start + 16 << 10, bytes.count)]
            while true {
                let result = piece.withUnsafeBytes { sink.append($0.baseAddress!, $0.count) }
                if case .accepted = result { break }
                if case .failed(let error) = result { throw error }
                do { try await Task.sleep(for: .milliseconds(20)) } catch { throw .cancelled }
            }
        }
    }

    /// - Throws: `too_large` or `path_forbidden` if no bucket can have such an object.
    private func prepare(total: Int64?) throws(TransferError) {
        guard total ?? 0 <= ObjectStore.maxObjectSize else {
            throw .failed(Failure(.tooLarge, "the file has \(total ?? 0) bytes, and an object can have at most 5 TiB"))
        }
        let path = state.withLock { state in
            state.storeState = PartsRecord(total: total)
            return state.name.path
        }
        if let scalar = path.unicodeScalars.first(where: { !FileName.isXMLCharacter($0) }) {
            throw .failed(
                Failure(
                    .pathForbidden,
                    "the path \(path) has the character U+\(String(scalar.value, radix: 16, uppercase: true)), which "
                        + "object stores cannot list, because XML forbids it: choose another path"))
        }
        guard client.address.key(path).utf8.count <= 1024 else {
            throw .failed(Failure(.pathForbidden, "the key of the object would be longer than 1024 bytes"))
        }
    }

    func reserve(_ total: Int64) async throws(TransferError) {}

    /// Writes the object with one request, when all bytes are in memory and none is in the store.
    func put(_ bytes: [UInt8], _ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        try prepare(total: whole.size)
        state.withLock { $0.phase = .open }
        let body = RequestMemory(bytes)
        return try await verifyAndPut(body, whole)
    }

    // MARK: Discarding

    func exists() async -> Bool {
        let (phase, isInMemory) = state.withLock { state in
            (state.phase, state.buffers.values.contains { !$0.present.isEmpty } || state.work.isAny)
        }
        guard phase == .open else { return false }
        if isInMemory { return true }
        // If the store does not respond, assume that objects are left.
        guard let found = try? await client.list(client.address.key(hidden.folder)) else { return true }
        return !found.objects.isEmpty
    }

    func discard(soon: Bool) async {
        let (completed, claimed, work) = state.withLock { state in
            let isNamed = state.phase == .placed
            if !isNamed { state.phase = state.phase == .unopened ? .unopened : .discarded }
            let isComplete = isNamed || state.isAssembled
            let completed = [isComplete ? state.storeState.upload : nil, isNamed ? state.copyUpload : nil].compactMap(
                \.self)
            // A request without a response may still hold the claim of its name, which the abort of the upload decides.
            let claimed = isNamed || state.unanswered.isEmpty ? nil : state.name.path
            return (Set(completed), claimed, state.work.tasks)
        }
        for task in work { task.cancel() }
        let purge: @Sendable () async -> Void = { [self] in
            await waitForWork()
            releaseAll()
            // Only now, because the first part that is under way creates the upload.
            guard state.withLock({ $0.hasHidden || $0.creating != nil }) else { return }
            await store.purge(hidden, completed: completed)
            if let claimed { await store.removeClaim(claimed, job: request.key, generation: generation) }
        }
        withdraw()
        if soon { store.deferWork(purge) } else { await purge() }
    }

    private func releaseAll() {
        let buffers = state.withLock { state in
            defer { state.buffers = [:] }
            return state.buffers.values.map(\.reservation)
        }
        for buffer in buffers { store.memory.release(buffer) }
    }
}
