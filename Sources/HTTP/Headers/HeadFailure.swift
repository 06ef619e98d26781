/// Why a request got no response head, and what may help.
struct HeadFailure: Error {
    /// What to try next.
    enum Remedy {
        /// A new connection instead of a kept one, on which nothing was sent.
        case newConnection
        /// HTTP/2: the failure is typical of servers that speak only HTTP/2, which was not offered.
        case http2
        /// The resolver: only the resolver knows whether the name does not exist or its own failure is temporary.
        case resolver
        /// The body without `Expect: 100-continue`, which the server refuses.
        case withoutExpect
    }

    let error: TransferError
    var remedy: Remedy?
    /// The server had agreed to HTTP/2 before the failure.
    var isOfHTTP2 = false
}
