/// The limits of a server: for all clients together, for each request, and for each phase of a connection.
package struct ServerLimits: Sendable {
    /// Open connections. A further connection replaces one of the network that has the most connections: one that makes
    /// no progress, or a busy one if the further connection comes from a network that has fewer. Otherwise it gets a
    /// 503.
    package var connections = 800
    /// Streamed responses at the same time (`ResponseWriter`). A further one gets a 503.
    package var streams = 256
    /// Bytes of a request's line and header fields.
    package var head = 16 << 10
    /// Header fields of a request.
    package var fields = 100
    /// Bytes of a request's body.
    package var body = 1 << 20
    /// Bytes of the bodies of all clients together, from the decision to read one until its response is made. A request
    /// beyond that gets a 503.
    package var bodies = 16 << 20
    /// Of these, the bytes of clients that have not signed in. One network of them sends at most `body` at a time.
    package var strangersBodies = 4 << 20
    /// Bytes of the responses that wait until their clients take them, for all clients together. One network has a
    /// quarter of it. A longer response than `shortResponse` that exceeds this gets a 503, unless it is the only one. So
    /// does a request with a body, before the body is read.
    package var responses = 64 << 20
    package var shortResponse = 64 << 10
    /// Requests that the server starts in one turn of its loop for connections that sent several requests at once.
    package var pipelined = 64
    /// Until a request's head is complete: for the first request of a connection from its opening, for a later one from
    /// its first byte. No byte prolongs it.
    package var headTime: Duration = .seconds(10)
    /// From the decision to read a body until it is complete.
    package var bodyTime: Duration = .seconds(20)
    /// From a response until the first byte of the next request.
    package var idleTime: Duration = .seconds(60)
    /// Until the socket has taken a response, or the next piece of a stream.
    package var writeTime: Duration = .seconds(20)
    /// For how long a closing connection reads and drops bytes, so that the client can read the last response.
    package var lingerTime: Duration = .seconds(2)

    package init() {}
}
