/// The head of a final response (not 1xx).
package struct ResponseHead: Sendable {
    package let status: Int
    package let headers: HeaderFields
    /// The URL that was asked.
    package let url: String

    package init(status: Int, headers: HeaderFields, url: String) {
        (self.status, self.headers, self.url) = (status, headers, url)
    }

    /// How the end of the body is told (RFC 9112 section 6.3).
    package enum Length: Sendable, Equatable {
        case bytes(Int64)
        case chunked
        /// Only the close of the connection tells it.
        case untilClose
        /// Several Content-Lengths that differ, or one that is no number.
        case invalid
    }

    package var length: Length {
        if headers["transfer-encoding"]?.lowercased().contains("chunked") == true { return .chunked }
        let values = headers.all("content-length").flatMap { $0.split(separator: ",").map(\.trimmed) }
        guard let first = values.first else { return .untilClose }
        guard values.allSatisfy({ $0 == first }), first.utf8.allSatisfy({ 48...57 ~= $0 }), let count = Int64(first)
        else {
            return .invalid
        }
        return .bytes(count)
    }
}
