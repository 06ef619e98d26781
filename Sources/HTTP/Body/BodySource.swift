/// Supplies the bytes of one request body, in order: the protocol between whatever has the bytes and the network.
///
/// The engine makes all calls on its own thread. They must not block.
package protocol BodySource: AnyObject, Sendable {
    /// Writes the next bytes to the start of `buffer`: as many as are available and fit.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> SourceResult

    /// Nothing is read after this call.
    func end()
}

/// What a source returns when it is asked for bytes.
package enum SourceResult: Sendable, Equatable {
    /// This many bytes were written, at least one.
    case bytes(Int)
    /// No bytes are available yet. The source calls `wake` when there are some, or when it knows that none will come.
    case wait
    /// All bytes were supplied.
    case end
    case failed(TransferError)
}

/// A body that can be sent more than once. Sending starts again after a redirect, after a request for authentication,
/// or if a kept connection turns out to be dead.
package protocol BodySupply: Sendable {
    /// The length of the whole body in bytes; nil if only its end shows it. A source that supplies fewer or more is an
    /// error.
    var length: Int64? { get }

    /// A source that begins at the first byte.
    ///
    /// - Parameter wake: Resumes sending after the source has returned `wait`.
    func source(wake: @escaping @Sendable () async -> Void) -> any BodySource
}

/// The body of a request.
package enum RequestBody: Sendable {
    /// Sent from memory.
    case bytes([UInt8])
    /// Streamed from a source; never held in memory as a whole.
    case stream(any BodySupply)

    /// The number of bytes; nil if it is not known before they are sent.
    package var count: Int64? {
        switch self {
        case .bytes(let bytes): Int64(bytes.count)
        case .stream(let supply): supply.length
        }
    }

    /// A text, in UTF-8.
    package static func text(_ text: String) -> RequestBody { .bytes(Array(text.utf8)) }
}
