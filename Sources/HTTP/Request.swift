package import HaulContract

/// What to ask of a server. Headers are sent as they are: ranges and conditions are among them. Redirects are not followed.
package struct Request: Sendable {
    /// http or https; others are refused.
    package var url: String
    package var method = "GET"
    package var headers: [HeaderField] = []
    package var body: RequestBody?
    /// Asks the server whether it wants a streamed body, of more than 1 MiB, before that is sent (RFC 9110 section 10.1.1). A
    /// server that does not answer gets it after a second.
    package var asksFirst = false
    /// It is sent over a connection of its own, since libcurl sends a request once more where a kept one turns out to be dead.
    package var isSentOnce = false
    /// Told of what is sent.
    package var sending: SendingProgress?
    /// A body that is read where it is, and not copied, in place of `body`.
    package var memory: RequestMemory?
    /// For the name, the connection and the TLS handshake together.
    package var connectTimeout: Duration = .seconds(15)
    /// Without a byte for this long, not counted while our own limits or the disk hold the reader back, it is `stalled`.
    package var stallTimeout: Duration = .seconds(60)
    /// All of them are obeyed, by what is received and by a streamed body that is sent.
    package var limits: [TokenBucket] = []

    /// Those of hosts: what a redirect or a mirror leads to obeys that of its own host.
    package var hostBuckets: HostBuckets?

    package init(url: String) { self.url = url }
}
