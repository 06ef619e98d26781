/// The limits of a server: for all clients together, for each request, and for each phase of a connection.
package struct ServerLimits: Sendable {
    /// Open connections. A further connection replaces the one that has been idle for the longest time. If no
    /// connection is idle, the new one gets a 503.
    package var connections = 800
    /// Streamed responses at the same time (`ResponseWriter`). A further one gets a 503.
    package var streams = 256
    /// Bytes of a request's line and header fields.
    package var head = 16 << 10
    /// Header fields of a request.
    package var fields = 100
    /// Bytes of a request's body.
    package var body = 1 << 20
    /// From the opening of a connection, and again from the first byte of each request, until the head is complete.
    package var headTime: Duration = .seconds(10)
    /// From the end of the head until the body is complete.
    package var bodyTime: Duration = .seconds(20)
    /// From a response until the first byte of the next request.
    package var idleTime: Duration = .seconds(60)
    /// Until the socket has taken a response, or the next piece of a stream.
    package var writeTime: Duration = .seconds(20)
    /// For how long a closing connection reads and drops bytes, so that the client can read the last response.
    package var lingerTime: Duration = .seconds(2)

    package init() {}
}
