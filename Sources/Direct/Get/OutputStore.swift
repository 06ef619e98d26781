import HaulContract
import HaulFileStore
import HaulHTTP
import HaulStorage
import Synchronization

/// A store that writes each byte to standard output as it arrives, and keeps nothing. Written bytes cannot be taken
/// back, so another version of the file is refused once a byte is written.
final class OutputStore: Store {
    let id = "standard output"
    let name = "standard output"
    private let pipe: OutputPipe
    /// The position of the file's first byte, because several files may follow one another.
    private let start: Int64
    private let current = Mutex<OutputPartial?>(nil)

    init(_ pipe: OutputPipe) { (self.pipe, start) = (pipe, pipe.position) }

    func fault() async -> String? { nil }

    func begin(_ request: FileRequest, generation: String, suggested: String) -> any Partial {
        let partial = OutputPartial(pipe, from: start, generation: generation, key: request.key)
        current.withLock { $0 = partial }
        return partial
    }

    func resume(_ request: FileRequest, from resume: ResumePoint) async throws(TransferError) -> Remainder {
        guard let partial = current.withLock({ $0 }), partial.generation == resume.generation else { return .nothing }
        return .partial(partial)
    }

    func held(
        _ file: CompletedFile, for request: FileRequest, fencing: Bool
    ) async throws(TransferError) -> HeldFile? { nil }
    func digest(
        of file: StoredFile, _ algorithm: Job.Checksum.Algorithm
    ) async throws(TransferError) -> String? { nil }
    func discard(_ location: PartialLocation) async {}
}

/// The file that is written to standard output.
final class OutputPartial: Partial {
    let generation: String
    private let pipe: OutputPipe
    private let start: Int64
    private let key: String
    private struct State {
        var isOpen = false
        var digest: StreamDigest?
    }
    private let state = Mutex(State())

    init(_ pipe: OutputPipe, from start: Int64, generation: String, key: String) {
        (self.pipe, self.start, self.generation, self.key) = (pipe, start, generation, key)
    }

    /// Bytes of the file that are written.
    private var count: Int64 { pipe.position - start }

    var location: PartialLocation? {
        state.withLock { $0.isOpen } ? PartialLocation(file: "-", key: key, generation: generation) : nil
    }

    var written: ByteIntervals { ByteIntervals([0..<count]) }
    var error: TransferError? { pipe.error }
    var isHashing: Bool { state.withLock { $0.digest != nil } }

    func open(
        total: Int64?, hashing digest: Job.Checksum.Algorithm?, with bytes: [UInt8]
    ) async throws(TransferError) {
        guard count == 0 else {
            throw .failed(
                Failure(
                    .remoteChanged,
                    "\(count) bytes are written already, and the server cannot continue there",
                    isFinal: true))
        }
        state.withLock { state in
            state.isOpen = true
            state.digest = digest.map(StreamDigest.init)
        }
        if !bytes.isEmpty, case .failed(let error) = append(bytes, at: 0) { throw error }
    }

    func reserve(_ total: Int64) async throws(TransferError) {}

    func checkpoint(isLast: Bool) async throws(TransferError) -> Checkpoint? {
        Checkpoint(offsets: written, blockChecks: [:])
    }

    func sink(at offset: Int64, wake: @escaping @Sendable () async -> Bool) -> any BodySink {
        Sink(self, at: offset, wake: wake)
    }

    func commit(_ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        try await pipe.flush()
        var checksum: String?
        if let wanted = whole.checksum, let digest = state.withLock({ $0.digest?.hexadecimal() }) {
            checksum = "\(wanted.algorithm.rawValue):\(digest)"
            guard digest == wanted.digest else {
                throw .failed(
                    Failure(
                        .checksumMismatch,
                        "the \(wanted.algorithm.rawValue) of what was written is \(digest), \(whole.authority) says "
                            + wanted.digest, isFinal: true))
            }
        }
        return .stored(
            StoredFile(file: "-", bytes: whole.size, identity: 0, modified: 0, checksum: checksum))
    }

    func put(_ bytes: [UInt8], _ whole: WholeFile) async throws(TransferError) -> CommitOutcome {
        try await open(total: whole.size, hashing: whole.checksum?.algorithm, with: bytes)
        return try await commit(whole)
    }

    func exists() async -> Bool { count > 0 }
    func discard(soon: Bool) async {}

    fileprivate func append(
        _ bytes: [UInt8], at offset: Int64, wake: (@Sendable () async -> Bool)? = nil
    ) -> SinkResult {
        let result = pipe.append(bytes, at: start + offset, wake: wake)
        if case .accepted = result { state.withLock { $0.digest?.update(bytes) } }
        return result
    }

    private final class Sink: BodySink {
        private let partial: OutputPartial
        private let wake: @Sendable () async -> Bool
        private let offset: Mutex<Int64>

        init(_ partial: OutputPartial, at offset: Int64, wake: @escaping @Sendable () async -> Bool) {
            (self.partial, self.wake) = (partial, wake)
            self.offset = Mutex(offset)
        }

        func append(_ bytes: UnsafeRawPointer, _ count: Int) -> SinkResult {
            let piece = [UInt8](UnsafeRawBufferPointer(start: bytes, count: count))
            return offset.withLock { offset in
                let result = partial.append(piece, at: offset, wake: wake)
                if case .accepted = result { offset += Int64(count) }
                return result
            }
        }

        func releaseMemory() {}
        func handOver() {}
        func end() {}
        func finish() async throws(TransferError) { try await partial.pipe.flush() }
    }
}
