/// The client's side of an answer without an end.
package struct ResponseWriter: Sendable {
    /// The client is gone, or too slow, or the server stops.
    package struct Closed: Error {}

    let server: HTTPServer
    let connection: UInt64

    /// Sends `text` and returns when nearly all of it has been taken, so that a slow client is not sent what is out of date.
    /// Throws `Closed` if the client is gone or does not take it in time.
    package func send(_ text: String) async throws {
        try await server.send(Array(text.utf8), on: connection)
    }
}
