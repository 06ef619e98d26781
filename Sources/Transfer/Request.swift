/// What to ask of a server. Ranges and conditions are plain headers; redirects are not followed.
package struct Request: Sendable {
    package var url: String
    package var method = "GET"
    package var headers: [(name: String, value: String)] = []
    package var body: String?
    package var connectTimeout: Duration = .seconds(15)
    /// Without a byte for this long, not counted while our own limits hold the reader back, it is `stalled`.
    package var stallTimeout: Duration = .seconds(60)
    /// All of them are obeyed.
    package var limits: [TokenBucket] = []

    package init(url: String) { self.url = url }
}
