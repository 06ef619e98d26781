/// Reads what the client of an upgraded connection sends. Bytes stay in the kernel until they are awaited, so a client
/// that sends more than is read must wait (back-pressure).
package struct IncomingBytes: Sendable {
    package enum Piece: Sendable {
        case bytes([UInt8])
        /// Nothing has come until the deadline.
        case none
        /// The client is gone, or the server has stopped.
        case end
    }

    let server: HTTPServer
    let connection: UInt64

    /// The next bytes, or `none` if there are none until `deadline`. One caller waits at a time.
    package func next(until deadline: ContinuousClock.Instant) async -> Piece {
        await server.nextBytes(on: connection, until: deadline)
    }
}
