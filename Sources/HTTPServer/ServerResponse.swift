import Glibc

/// A response: a status, header fields, and bytes or a stream.
package struct ServerResponse: Sendable {
    package enum Body: Sendable {
        case bytes([UInt8])
        /// Runs until it returns, or until it is cancelled because the client is gone. Then the connection is closed,
        /// which ends the response. `length` is the number of bytes that it will send, if that is known: a client
        /// that receives fewer knows that the response is not whole.
        case stream(length: Int64? = nil, @Sendable (ResponseWriter) async throws -> Void)
        /// The same after a change of the protocol (101). It also reads what the client sends.
        case upgrade(@Sendable (ResponseWriter, IncomingBytes) async throws -> Void)
    }

    package var status: Int
    /// Without Content-Length and Connection, which the server writes.
    package var fields: [(name: String, value: String)]
    package var body: Body
    /// The network of the client for which it is, if a proxy has forwarded the request; nil: that of the connection.
    package var recipient: ClientNetwork?
    /// The request has changed nothing although it has a body, so that the client may repeat it.
    package var isRepeatable = false

    package init(_ status: Int, fields: [(name: String, value: String)] = [], body: Body = .bytes([])) {
        (self.status, self.fields, self.body) = (status, fields, body)
    }

    /// A response with a text of the media type `type`.
    package init(_ status: Int, _ type: String, _ text: String) {
        self.init(status, fields: [("Content-Type", type)], body: .bytes(Array(text.utf8)))
    }

    /// The bytes of the response's head. Drops control characters in values, so that no value can add a header field.
    ///
    /// - Parameter length: The length of the body. nil for a stream of unknown length, which ends with the connection.
    func head(length: Int64?, keepsAlive: Bool) -> [UInt8] {
        var text = "HTTP/1.1 \(status) \(Self.phrases[status] ?? "Status")\r\n"
        for (name, value) in fields {
            text += "\(name): "
            text.unicodeScalars.append(contentsOf: value.unicodeScalars.filter { $0.value >= 32 && $0.value != 127 })
            text += "\r\n"
        }
        text += "Date: \(Self.date(time(nil)))\r\n"
        if let length, status != 304, status != 204 { text += "Content-Length: \(length)\r\n" }
        text += "Connection: \(status == 101 ? "Upgrade" : keepsAlive ? "keep-alive" : "close")\r\n\r\n"
        return Array(text.utf8)
    }

    /// The date in the format of RFC 9110 section 5.6.7.
    static func date(_ seconds: time_t) -> String {
        var (seconds, parts) = (seconds, tm())
        gmtime_r(&seconds, &parts)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return
            "\(days[Int(parts.tm_wday)]), \(two(parts.tm_mday)) \(months[Int(parts.tm_mon)]) \(1900 + parts.tm_year) "
            + "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) GMT"
    }

    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static let phrases = [
        101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 304: "Not Modified",
        206: "Partial Content", 308: "Permanent Redirect",
        400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
        408: "Request Timeout", 409: "Conflict", 411: "Length Required", 413: "Content Too Large",
        414: "URI Too Long", 415: "Unsupported Media Type", 416: "Range Not Satisfiable", 421: "Misdirected Request",
        422: "Unprocessable Content",
        429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
        501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 505: "HTTP Version Not Supported",
    ]
}
