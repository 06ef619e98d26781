/// Sends the body of a streamed response.
package struct ResponseWriter: Sendable {
    /// The client is gone or too slow, or the server has stopped.
    package struct Closed: Error {}

    let server: HTTPServer
    let connection: UInt64

    /// Sends `text`. Returns when the socket has taken all of it (back-pressure), so that the caller does not produce
    /// text that a slow client would get too late.
    ///
    /// - Throws: `Closed` if the client is gone or does not take `text` within `ServerLimits.writeTime`.
    package func send(_ text: String) async throws {
        try await send(Array(text.utf8))
    }

    /// The same for bytes.
    package func send(_ bytes: [UInt8]) async throws { try await server.send(bytes, on: connection) }
}
