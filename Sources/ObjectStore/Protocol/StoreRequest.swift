import HaulContract
import HaulHTTP

/// A request to a bucket, before it is signed.
struct StoreRequest: Sendable {
    var method: String
    /// The whole key of an object, with the prefix; empty for the bucket itself.
    var key: String
    var query: [(String, String)] = []
    var headers: [HeaderField] = []
    var memory: RequestMemory?
    /// SHA-256 of the body in hexadecimal digits. nil if the body is not signed, since it is sent with its MD5.
    var payload: String?
    /// The maximum bytes of a successful response.
    var limit = XMLElement.maxBytes
    /// The number of tries, the first one included.
    var tries = RequestBackoff.tries
    /// Each try is sent at most once. libcurl repeats other requests if a connection that was kept has died meanwhile.
    var isSentOnce = false
    /// After this time the request is not retried.
    var maxTime = RequestBackoff.maxTime
    /// Seconds without a byte of the response, in addition to the time for sending the body.
    var timeout: Int64 = 30

    /// The signature is in the query and expires, as for each request that creates or deletes a finished object. It is
    /// not retried, and has no effect if the network delivers it late. It is sent at once, because its sender has
    /// checked that it may be: `BucketClient.waitForTurn` comes before these checks.
    private(set) var isPresigned = false
    /// How many seconds earlier than now the request is dated.
    var age: Int64 = 0
    /// When the name was last read. A presigned request expires relative to this time, so that a process that was
    /// frozen afterwards does not act on an old state.
    var seen: ContinuousClock.Instant?

    /// Seconds after which the signature expires; nil if it does not. A proxy may collect the whole body before the
    /// store receives any of it.
    var validity: Int64? { isPresigned ? Self.minValidity + Int64(memory?.bytes.count ?? 0) >> 18 : nil }
    private static let minValidity: Int64 = 10

    mutating func presign() { (isPresigned, tries) = (true, 1) }

    /// The maximum bytes of a response. That of an error has a document, which may be longer than the object.
    func limit(ofStatus status: Int) -> Int {
        (200..<300).contains(status) ? limit : max(limit, Self.maxErrorBytes)
    }
    private static let maxErrorBytes = 64 << 10

    init(_ method: String, _ key: String) { (self.method, self.key) = (method, key) }

    /// Sets a short text as the body, which is signed.
    mutating func carry(_ text: String) {
        let bytes = Array(text.utf8)
        memory = RequestMemory(bytes)
        payload = Hexadecimal.text(Digest.sha256(bytes))
        headers.append(HeaderField("Content-MD5", Base64.encode(Digest.md5(bytes))))
    }

    /// Sets a body that is not signed. The server compares it with this MD5.
    mutating func carry(_ memory: RequestMemory, md5: [UInt8]) {
        self.memory = memory
        headers.append(HeaderField("Content-MD5", Base64.encode(md5)))
    }

    /// A slow network gets a second more for each 256 KiB of the body.
    var stallTimeout: Duration { .seconds(timeout + Int64(memory?.bytes.count ?? 0) >> 18) }
}
