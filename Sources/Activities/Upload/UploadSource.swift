import HaulHTTP
import Synchronization

/// The source of an upload's body. It reads some chunks ahead, so that disk and network do not wait for each other.
final class UploadSource: BodySource {
    private struct State {
        var pieces: ArraySlice<UploadBody.Piece>
        /// How many bytes of the first piece are read.
        var position: Int64 = 0
        var ready: [ArraySlice<UInt8>] = []
        var isReading = false
        /// The network waits for bytes, because none were ready.
        var isAwaited = false
        var hasEnded = false
        var failure: TransferError?

        /// Copies bytes that are ready into the buffer.
        mutating func supply(_ buffer: UnsafeMutableRawBufferPointer) -> SourceResult {
            guard let first = ready.first else {
                if let failure { return .failed(failure) }
                if pieces.isEmpty { return .end }
                isAwaited = true
                return .wait
            }
            let some = first.prefix(buffer.count)
            buffer.copyBytes(from: some)
            if some.count == first.count { ready.removeFirst() } else { ready[0] = first.dropFirst(some.count) }
            return .bytes(some.count)
        }

        /// What to read next. nil if enough is ready, or if nothing is left to read.
        mutating func next() -> (piece: UploadBody.Piece, range: Range<Int64>)? {
            while let piece = pieces.first, position == piece.count {
                pieces.removeFirst()
                position = 0
            }
            guard let piece = pieces.first, ready.count < UploadSource.maxReady, !hasEnded, failure == nil else {
                isReading = false
                return nil
            }
            isReading = true
            let end = min(position + piece.readSize, piece.count)
            return (piece, position..<end)
        }

        /// Stores the result of a read. Returns whether the network waits for it.
        mutating func record(_ result: Result<[UInt8], TransferError>) -> Bool {
            switch result {
            case .success(let bytes):
                position += Int64(bytes.count)
                if !hasEnded { ready.append(bytes[...]) }
                // Drop finished pieces now, so that the next call of `read` sees the end.
                while let piece = pieces.first, position == piece.count {
                    pieces.removeFirst()
                    position = 0
                }
            case .failure(let error): failure = error
            }
            defer { isAwaited = false }
            return isAwaited
        }
    }

    /// How many chunks are read ahead.
    private static let maxReady = 3

    private let state: Mutex<State>
    private let executor: any TaskExecutor
    private let wake: @Sendable () async -> Void

    init(
        _ pieces: [UploadBody.Piece], executor: any TaskExecutor, wake: @escaping @Sendable () async -> Void
    ) {
        state = Mutex(State(pieces: pieces.filter { $0.count > 0 }[...]))
        (self.executor, self.wake) = (executor, wake)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> SourceResult {
        let (result, begins) = state.withLock { state in
            let result = state.supply(buffer)
            let begins =
                !state.isReading && !state.pieces.isEmpty && state.failure == nil && state.ready.count < Self.maxReady
            if begins { state.isReading = true }
            return (result, begins)
        }
        if begins { Task(executorPreference: executor) { await self.fill() } }
        return result
    }

    func end() {
        state.withLock { state in
            state.hasEnded = true
            state.ready = []
        }
    }

    private func fill() async {
        while let (piece, range) = state.withLock({ $0.next() }) {
            let result: Result<[UInt8], TransferError>
            do { result = .success(try await piece.read(range)) } catch { result = .failure(error) }
            if state.withLock({ $0.record(result) }) { await wake() }
        }
    }
}
