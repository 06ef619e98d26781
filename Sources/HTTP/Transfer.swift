/// How a body ended well.
package struct TransferEnd: Sendable, Equatable {
    package enum Reason: Sendable {
        /// All bytes that were demanded or announced came, or the last chunk did.
        case length
        /// The connection closed, which is all that told the end: the body may be cut short.
        case close
        /// At the offset given to `shorten(to:)`.
        case shortened
    }

    /// The byte of the file after the last one that was accepted.
    package let position: Int64
    /// Bytes of the body that were accepted.
    package let bytes: Int64
    package let reason: Reason
    /// The server sent more than was demanded; the rest was dropped.
    package var isOverlong = false

    package init(position: Int64, bytes: Int64, reason: Reason, isOverlong: Bool = false) {
        (self.position, self.bytes, self.reason, self.isOverlong) = (position, bytes, reason, isOverlong)
    }
}

/// A response whose head is known and whose body waits at its first byte. Dropping it cancels it.
///
/// Exactly one of `receive`, `collect` and `discard` is called, once; `receive` may follow a `collect` that was ended before
/// the body. All of them end early with `TransferError.cancelled` when the task is cancelled.
package final class Transfer: Sendable {
    package let head: ResponseHead
    /// Read it from anywhere, as often as you like.
    package let progress: TransferProgress
    private let engine: TransferEngine
    private let id: UInt64

    init(id: UInt64, head: ResponseHead, progress: TransferProgress, engine: TransferEngine) {
        (self.id, self.head, self.progress, self.engine) = (id, head, progress, engine)
    }

    deinit { if !progress.isOver { cancel() } }

    /// Gives the body to `destination` from `offset` on, but for what was collected of it. Returns when the bytes are there
    /// (not synced).
    ///
    /// - Parameter length: Exactly so many bytes are demanded; fewer are `incomplete`, more are dropped and reported. nil
    ///   demands what the response announces, if it does.
    /// - Throws: What broke the transfer. The bytes that came before it are on their way to the destination.
    package func receive(
        into destination: any BodyDestination, at offset: Int64 = 0, length: Int64? = nil
    ) async throws(TransferError) -> TransferEnd {
        let (sink, result) = await engine.receive(id, into: destination, at: offset, length: length)
        // Not on the engine's thread, which has nothing to do with the disk. What broke the writing matters more than what
        // the network made of it.
        try await sink.finish()
        return try result.get()
    }

    /// The whole body, if it is at most `limit` bytes long, or what has come when `endCollecting` is called; `too_large`
    /// otherwise.
    package func collect(limit: Int) async throws(TransferError) -> [UInt8] {
        try await engine.collect(id, limit: limit)
    }

    /// Ends `collect`, if that is under way, where it is.
    package func endCollecting() async { await engine.endCollecting(id) }

    /// Reads and drops the body if it is at most `limit` bytes long, so that the connection is used again, and gives the
    /// connection up otherwise.
    package func discard(limit: Int = 64 << 10) async { await engine.discard(id, limit: limit) }

    /// Stops `receive` at this offset of the file, because another transfer fetches what follows. Bytes beyond it that
    /// have come already stay. The connection is lost unless the rest of the response is short.
    package func shorten(to end: Int64) {
        progress.shorten(to: end)
        let (engine, id) = (engine, id)
        Task { await engine.shortened(id) }
    }

    /// Ends the transfer within milliseconds. Harmless when it has ended.
    package func cancel() {
        let (engine, id) = (engine, id)
        Task { await engine.cancel(id) }
    }
}
