import HaulContract
import HaulHTTP

/// One question to a bucket.
struct StoreRequest: Sendable {
    var method: String
    /// Of an object, whole; "" is the bucket.
    var key: String
    var query: [(String, String)] = []
    var headers: [HeaderField] = []
    var memory: RequestMemory?
    /// SHA-256 of the body in hexadecimal; nil: it is not signed, since an MD5 goes with it.
    var payload: String?
    /// The most bytes of an answer.
    var limit = XMLElement.longest
    /// Tries in all.
    var tries = RequestPace.tries
    /// After this it is not tried again.
    var patience = RequestPace.patience
    /// Seconds without a byte of the answer, beside what sending the body takes.
    var timeout: Int64 = 30

    init(_ method: String, _ key: String) { (self.method, self.key) = (method, key) }

    /// A short text as its body.
    mutating func carry(_ text: String) {
        let bytes = Array(text.utf8)
        memory = RequestMemory(bytes)
        payload = Digest.sha256(bytes).hexadecimal
        headers.append(HeaderField("Content-MD5", Digest.md5(bytes).base64))
    }

    /// The server compares the body with this MD5.
    mutating func carry(_ memory: RequestMemory, md5: [UInt8]) {
        self.memory = memory
        headers.append(HeaderField("Content-MD5", md5.base64))
    }

    /// A slow way is given a second for each 256 KiB.
    var stallTimeout: Duration { .seconds(timeout + Int64(memory?.bytes.count ?? 0) >> 18) }
}
