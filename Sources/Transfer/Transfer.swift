/// A response whose head is known and whose body waits. Say where the body goes; dropping it cancels it.
package final class Transfer: Sendable {
    private let id: UInt64
    package let head: ResponseHead
    package let progress: TransferProgress
    private let engine: TransferEngine

    init(id: UInt64, head: ResponseHead, progress: TransferProgress, engine: TransferEngine) {
        (self.id, self.head, self.progress, self.engine) = (id, head, progress, engine)
    }

    deinit { cancel() }

    /// Writes the body to `file` from `offset`. With a `length` exactly that many bytes are demanded (`.incomplete` if
    /// there are fewer), and none beyond it is taken. Returns when all bytes are handed to the file, which may not have
    /// written them yet; cancelling the task ends it within milliseconds.
    package func receive(into file: OutputFile, at offset: Int64, length: Int64?) async throws(TransferError)
        -> TransferEnd
    {
        try await engine.take(id, into: .file(file, position: offset, end: length.map { offset + $0 })).get()
    }

    /// The body as bytes, `.badResponse` if there are more than `limit`.
    package func collect(limit: Int) async throws(TransferError) -> [UInt8] {
        try await engine.take(id, into: .memory([], limit: limit)).get().bytes
    }

    /// Reads on to the end if that is near, so that the connection can be used again.
    package func discard(limit: Int = 64 << 10) async { _ = await engine.take(id, into: .discard(left: limit)) }

    /// Ends the body at this offset of the file: somebody else fetches the rest.
    package func shorten(to end: Int64) async { await engine.shorten(id, to: end) }

    package func cancel() { Task { [engine, id] in await engine.cancel(id) } }
}
