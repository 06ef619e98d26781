package import HaulContract

/// What to ask of a server. Headers are sent as they are: ranges and conditions are among them. Redirects are not followed.
package struct Request: Sendable {
    /// http or https; others are refused.
    package var url: String
    package var method = "GET"
    package var headers: [HeaderField] = []
    package var body: String?
    /// For the name, the connection and the TLS handshake together.
    package var connectTimeout: Duration = .seconds(15)
    /// Without a byte for this long, not counted while our own limits or the disk hold the reader back, it is `stalled`.
    package var stallTimeout: Duration = .seconds(60)
    /// All of them are obeyed.
    package var limits: [TokenBucket] = []

    package init(url: String) { self.url = url }
}
