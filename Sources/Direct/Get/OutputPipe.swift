import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

/// Writes bytes to standard output, a file or a pipe in order, on a thread of its own. A slow reader slows down the transfer
/// (back-pressure), and blocks nothing else.
final class OutputPipe: Sendable {
    private struct State {
        /// Small pieces are joined, because each costs memory and a call of `write`.
        var queue: [[UInt8]] = []
        var queuedBytes = 0
        var isWriting = false
        /// The offset after the last byte that was accepted.
        var position: Int64 = 0
        var error: TransferError?
        var wakeUps: [@Sendable () async -> Bool] = []
        var flushWaiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var lastWaiter: UInt64 = 0
    }

    /// The high-water mark, in bytes. At half of it waiting sinks are woken.
    private static let highWaterMark = 8 << 20
    /// The bytes of a piece that is written by one call. A larger one is not joined with others.
    private static let pieceSize = 256 << 10
    private let descriptor: Int32
    /// Whether nothing else uses the descriptor.
    private let isOwner: Bool
    private let name: String
    private let pool = BlockingPool(name: "stdout", limit: 1)
    /// Reads files. A write may be under way whose reader has stopped, of a file that was given up.
    private static let reading = BlockingPool(name: "scratch", limit: 1)
    private let state = Mutex(State())

    /// - Parameter name: What errors call it.
    init(_ descriptor: Int32, named name: String = "standard output") {
        (self.descriptor, self.name, isOwner) = (descriptor, name, false)
    }

    /// Closes the descriptor when all accepted bytes are written and nothing refers to the pipe any more.
    init(owning descriptor: Int32, named name: String) {
        (self.descriptor, self.name, isOwner) = (descriptor, name, true)
    }

    deinit { if isOwner { close(descriptor) } }

    /// The number of bytes that were accepted.
    var position: Int64 { state.withLock { $0.position } }
    var error: TransferError? { state.withLock { $0.error } }

    /// Accepts bytes in their order.
    ///
    /// - Parameters:
    ///   - offset: Must be the end of the bytes accepted so far.
    ///   - wake: Called when there is space again after `.wait` was returned. Without it the bytes are always accepted.
    func append(_ bytes: [UInt8], at offset: Int64, wake: (@Sendable () async -> Bool)? = nil) -> SinkResult {
        let (result, begins) = state.withLock { state -> (SinkResult, Bool) in
            if let error = state.error { return (.failed(error), false) }
            guard offset == state.position else { return (.failed(outOfOrder), false) }
            if let wake, state.queuedBytes >= Self.highWaterMark {
                state.wakeUps.append(wake)
                return (.wait, false)
            }
            if let last = state.queue.indices.last, state.queue[last].count + bytes.count <= Self.pieceSize {
                state.queue[last] += bytes
            } else {
                state.queue.append(bytes)
            }
            state.queuedBytes += bytes.count
            state.position += Int64(bytes.count)
            defer { state.isWriting = true }
            return (.accepted, !state.isWriting)
        }
        if begins { pool.submit { self.write() } }
        return result
    }

    /// Returns when all accepted bytes are written.
    ///
    /// - Throws: The error of a write; `cancelled` if the task is cancelled, as by a limit of time.
    func flush() async throws(TransferError) {
        let id = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = state.withLock { state in
                    guard state.isWriting, !Task.isCancelled else { return true }
                    state.flushWaiters[id] = continuation
                    return false
                }
                if isDone { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.flushWaiters.removeValue(forKey: id) }?.resume()
        }
        if let error { throw error }
        if Task.isCancelled { throw .cancelled }
    }

    /// Writes out a whole file.
    ///
    /// - Throws: The error of opening or reading the file, or of a write; `cancelled` if the task is cancelled, as by a
    ///   limit of time.
    func copy(_ path: String) async throws(TransferError) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw writeError(errno) }
        defer { close(file) }
        while true {
            if Task.isCancelled { throw .cancelled }
            // Each piece is written before the next one is read, so that few bytes are in memory.
            let piece = try await Self.reading.run { () throws(TransferError) in try Self.nextPiece(of: file) }
            if piece.isEmpty { return }
            if case .failed(let error) = append(piece, at: position) { throw error }
            try await flush()
        }
    }

    private static func nextPiece(of file: Int32) throws(TransferError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(file, &bytes, bytes.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw TransferError(.io, "the file cannot be read: \(String(cString: strerror(errno)))")
            }
            return Array(bytes[..<count])
        }
    }

    private func write() {
        while true {
            var flushWaiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
            let pieces = state.withLock { state in
                defer { state.queue = [] }
                guard state.queue.isEmpty || state.error != nil else { return state.queue }
                (state.isWriting, state.queuedBytes) = (false, 0)
                // In the same step, because a waiter that comes later waits for bytes that the next call writes.
                swap(&flushWaiters, &state.flushWaiters)
                return []
            }
            for waiter in flushWaiters.values { waiter.resume() }
            if pieces.isEmpty { return }
            for piece in pieces where error == nil { write(piece) }
        }
    }

    private func write(_ piece: [UInt8]) {
        let code = writeAll(piece)
        let wakeUps = state.withLock { state -> [@Sendable () async -> Bool] in
            state.queuedBytes -= piece.count
            if code != 0 { state.error = writeError(code) }
            guard state.queuedBytes < Self.highWaterMark / 2 || code != 0 else { return [] }
            defer { state.wakeUps = [] }
            return state.wakeUps
        }
        for wake in wakeUps { Task { _ = await wake() } }
    }

    /// 0 or errno.
    private func writeAll(_ bytes: [UInt8]) -> Int32 {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress!, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                var output = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&output, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }

    private var outOfOrder: TransferError {
        TransferError(.io, "bytes came out of order, and \(name) cannot wait for them")
    }

    private func writeError(_ code: Int32) -> TransferError {
        .failed(
            Failure(
                .io,
                code == EPIPE
                    ? "the reader of \(name) has closed it"
                    : "\(name) cannot be written: \(String(cString: strerror(code)))", isFinal: true))
    }
}
