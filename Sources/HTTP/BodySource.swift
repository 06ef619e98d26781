/// Gives the bytes of one body, in order: the seam between whatever has the bytes and the network.
///
/// All of it is called on the engine's thread, and must not block.
package protocol BodySource: AnyObject, Sendable {
    /// Writes the next bytes to the beginning of `buffer`, as many as there are and fit.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> SourceAnswer

    /// Nothing is read any more.
    func end()
}

/// What a source makes of being asked for bytes.
package enum SourceAnswer: Sendable, Equatable {
    /// So many were written, at least one.
    case bytes(Int)
    /// There are none yet. The source calls `wake` once there are, or once it knows that there will be none.
    case wait
    /// All have been given.
    case end
    case failed(TransferError)
}

/// Has a body that may be sent more than once: a redirect, a demand for authentication, or a kept connection that turns out to
/// be dead makes it begin anew.
package protocol BodySupply: Sendable {
    /// Bytes of the whole body; nil where only its end tells. A source that gives fewer or more is an error.
    var length: Int64? { get }

    /// A source that begins at the first byte.
    ///
    /// - Parameter wake: Makes the sending go on that was told to wait.
    func source(wake: @escaping @Sendable () async -> Void) -> any BodySource
}

/// The body of a request.
package enum RequestBody: Sendable {
    /// Sent from memory.
    case bytes([UInt8])
    /// Sent as its source gives it, never held in memory.
    case stream(any BodySupply)

    /// A text, in UTF-8.
    package static func text(_ text: String) -> RequestBody { .bytes(Array(text.utf8)) }
}
