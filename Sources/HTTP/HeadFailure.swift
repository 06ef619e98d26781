/// Why a request got no head, and what may help.
struct HeadFailure: Error {
    /// What the same request may do better.
    enum Remedy {
        /// The kept connection had input that nobody had asked for, and nothing was sent on it.
        case newConnection
        /// It failed as with servers that speak nothing but HTTP/2, which was not offered.
        case http2
        /// Only the resolver tells whether there is no such name at all, or whether it had trouble that may pass.
        case resolver
        /// The server does not want to be asked first whether it wants the body.
        case unasked
    }

    let error: TransferError
    var remedy: Remedy?
    /// The server had agreed to speak HTTP/2 when it failed.
    var isOfHTTP2 = false
}
