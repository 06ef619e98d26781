import HaulContract

/// The head of a final response (status 200 and above).
package struct ResponseHead: Sendable {
    package let status: Int
    package let headers: HeaderFields
    /// The URL of the request, without credentials.
    package let url: String
    /// The method of the request.
    package let method: String
    package let length: Length
    /// The numeric address of the other side, which is the proxy if there is one.
    package let remoteAddress: String
    /// Whether the connection had served an earlier request.
    package let isReused: Bool
    package let isHTTP2: Bool
    /// nil unless the request was observed.
    package var facts: ConnectionFacts?

    package init(
        status: Int, headers: HeaderFields, url: String, method: String = "GET", remoteAddress: String = "",
        isReused: Bool = false, isHTTP2: Bool = false
    ) {
        (self.status, self.headers, self.method) = (status, headers, method)
        self.url = MaskedURL.withoutCredentials(url)
        (self.remoteAddress, self.isReused, self.isHTTP2) = (remoteAddress, isReused, isHTTP2)
        let length = Length(method: method, status: status, headers: headers)
        self.length = isHTTP2 && length == .untilClose ? .chunked : length
    }

    /// How the end of the body is marked (RFC 9112 section 6.3).
    package enum Length: Sendable, Equatable {
        /// By Content-Length; 0 if there is no body: after HEAD, and with 204 and 304.
        case bytes(Int64)
        /// By the framing itself: the last chunk, or the end of the HTTP/2 stream.
        case chunked
        /// By the end of the connection, which looks the same as a broken connection.
        case untilClose
        /// Content-Length fields differ or are not numbers, or the transfer codings are more than `chunked`. Such a body
        /// is not accepted. (A head with a coding that libcurl would decode is refused as a whole: `HeadParser`.)
        case invalid

        init(method: String, status: Int, headers: HeaderFields) {
            guard method != "HEAD", status != 204, status != 304 else {
                self = .bytes(0)
                return
            }
            let codings = headers.all("transfer-encoding").flatMap { $0.split(separator: ",") }
            if !codings.isEmpty {
                self =
                    switch codings.map({ $0.trimmed.lowercased() }) {
                    case ["chunked"]: .chunked
                    case ["identity"]: .untilClose
                    default: .invalid
                    }
                return
            }
            let lengths = headers.all("content-length").flatMap { value in
                value.split(separator: ",", omittingEmptySubsequences: false).map { Self.number($0.trimmed) }
            }
            guard let first = lengths.first else {
                self = .untilClose
                return
            }
            self = lengths.allSatisfy { $0 == first } ? first.map { .bytes($0) } ?? .invalid : .invalid
        }

        private static func number(_ text: String) -> Int64? {
            !text.isEmpty && text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int64(text) : nil
        }
    }
}
