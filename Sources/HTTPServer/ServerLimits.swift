/// What one server gives to all of its clients together, and to each of them.
package struct ServerLimits: Sendable {
    /// Connections at once. One more closes the one that has waited longest for its next request; if all of them are being
    /// answered the new one is told 503.
    package var connections = 800
    /// Answers without an end, at once, that a handler may begin (`ResponseWriter`).
    package var streams = 256
    /// Bytes of a request's line and header fields.
    package var head = 16 << 10
    /// Header fields of a request.
    package var fields = 100
    /// Bytes of a request's body.
    package var body = 1 << 20
    /// From the first moment of a connection, or from the answer before, until a whole head is there.
    package var headTime: Duration = .seconds(10)
    /// From the end of the head until the whole body is there.
    package var bodyTime: Duration = .seconds(20)
    /// From the last answer until the next request begins.
    package var idleTime: Duration = .seconds(60)
    /// Until the client has taken an answer, or the next piece of a stream.
    package var writeTime: Duration = .seconds(20)
    /// For how long what a refused client still sends is read and dropped, so that it sees the refusal.
    package var lingerTime: Duration = .seconds(2)

    package init() {}
}
