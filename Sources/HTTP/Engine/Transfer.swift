package import HaulContract

/// How a body ended without an error.
package struct TransferEnd: Sendable, Equatable {
    package enum Reason: Sendable {
        /// All bytes that were required or announced have arrived, or the last chunk has.
        case length
        /// The connection closed, and nothing else marks the end, so the body may be incomplete.
        case close
        /// At the offset given to `shorten(to:)`.
        case shortened
    }

    /// The offset in the file after the last accepted byte.
    package let position: Int64
    /// Bytes of the body that were accepted.
    package let bytes: Int64
    package let reason: Reason
    /// The server sent more than was required. The excess was dropped.
    package var isOverlong = false

    package init(position: Int64, bytes: Int64, reason: Reason, isOverlong: Bool = false) {
        (self.position, self.bytes, self.reason, self.isOverlong) = (position, bytes, reason, isOverlong)
    }
}

/// A response whose head has arrived and whose body is paused at its first byte. Dropping it cancels the transfer.
///
/// Call exactly one of `receive`, `collect` and `discard`, once. `receive` may also follow a `collect` that
/// `endCollecting` ended early. If the task is cancelled, they end early; `receive` and `collect` throw `.cancelled`.
package final class Transfer: Sendable {
    package let head: ResponseHead
    /// May be read from any thread at any time.
    package let progress: TransferProgress
    private let engine: TransferEngine
    private let id: UInt64

    init(id: UInt64, head: ResponseHead, progress: TransferProgress, engine: TransferEngine) {
        (self.id, self.head, self.progress, self.engine) = (id, head, progress, engine)
    }

    deinit { if !progress.hasEnded { cancel() } }

    /// Writes the body to `destination` from `offset` on, without what was collected before. Returns when the bytes are
    /// in the store (not synced).
    ///
    /// - Parameter length: The exact number of bytes that are required. Fewer are `incomplete`; more are dropped and
    ///   reported. nil requires what the response announces, if it does.
    /// - Throws: The error that kept bytes from being stored, or that broke the transfer. Bytes that arrived before the
    ///   transfer broke are stored.
    package func receive(
        into destination: any BodyDestination, at offset: Int64 = 0, length: Int64? = nil
    ) async throws(TransferError) -> TransferEnd {
        let (sink, result) = await engine.receive(id, into: destination, at: offset, length: length)
        // Not on the engine's thread, which must not wait for the disk. An error of the disk matters more than the
        // result of the network.
        try await sink.finish()
        return try result.get()
    }

    /// The whole body, or what has arrived when `endCollecting` is called.
    ///
    /// - Throws: `too_large` if the body has more than `limit` bytes; otherwise what broke the transfer.
    package func collect(limit: Int) async throws(TransferError) -> [UInt8] {
        try await engine.collect(id, limit: limit)
    }

    /// Ends a running `collect`, which returns what it has.
    package func endCollecting() async { await engine.endCollecting(id) }

    /// Reads and drops a body of at most `limit` bytes, so that the connection can be reused. For a longer body the
    /// connection is closed.
    package func discard(limit: Int = 64 << 10) async { await engine.discard(id, limit: limit) }

    /// Stops `receive` at this file offset, because another transfer fetches what follows. Bytes beyond the offset that
    /// were accepted already stay. The connection is closed unless the rest of the response is short.
    package func shorten(to end: Int64) {
        progress.shorten(to: end)
        let (engine, id) = (engine, id)
        Task { await engine.shortened(id) }
    }

    /// Ends the transfer within milliseconds. Has no effect on a transfer that has ended.
    package func cancel() {
        let (engine, id) = (engine, id)
        Task { await engine.cancel(id) }
    }
}

/// Why a transfer, or a call on its file, did not finish.
package enum TransferError: Error, Sendable, Equatable {
    /// The message has no query string and no credentials. It does name hosts and ports.
    case failed(Failure)
    /// The disk, its inodes or a quota are used up. The job is not at fault, and waits until there is space.
    case noSpace
    /// `cancel()` was called, the `Transfer` was dropped, or the task that waited was cancelled.
    case cancelled

    package init(_ code: ErrorCode, _ message: String, isFinal: Bool = false) {
        self = .failed(Failure(code, message, isFinal: isFinal))
    }
}
