/// The response to a request or an upload, as the job's hash keeps it.
package struct StoredResponse: Sendable, Equatable {
    package var status: Int
    /// Names are in lower case. Each name occurs once.
    package var headers: [HeaderField]
    package var body: [UInt8]
    /// A digest of the request. The response may be reused only for a request with the same digest.
    package var requestDigest: String
    package var method: String
    /// When the server sent the response or confirmed that it is still valid: unix milliseconds by Redis' clock.
    package var validated: Int64
    /// Names the resource of a response that may be confirmed later, after redirects: only its server can confirm it. "" if
    /// it is not known.
    package var resource = ""
    /// The bytes that an upload has sent. nil for a request.
    package var uploaded: Int64?
    /// For an upload in several requests: the result of each file, as a JSON list.
    package var files: String?

    package init(
        status: Int, headers: [HeaderField], body: [UInt8], requestDigest: String, method: String, validated: Int64
    ) {
        (self.status, self.headers, self.body, self.requestDigest) = (status, headers, body, requestDigest)
        (self.method, self.validated) = (method, validated)
    }

    /// `etag` or `last-modified`; nil if the server sent none, or one that is too long to be stored.
    package func validator(_ header: String) -> String? {
        self[header].flatMap { $0.utf8.count > Entity.maxValidatorBytes ? nil : $0 }
    }

    package subscript(header: String) -> String? { headers.first { $0.name == header }?.value }

    /// What the largest response has in base 64. No body is longer than that in an event or a call of Redis.
    private static let maxTextInJSON = (1 << 20 + 2) / 3 * 4

    /// The body as text. nil if the body is not valid UTF-8, contains a NUL, or would be too long as JSON, where some
    /// characters take two or six bytes. Then it is kept in base 64.
    package var text: String? {
        guard !body.contains(0) else { return nil }
        // The few bodies that are this large are measured.
        if body.count * 6 > Self.maxTextInJSON {
            guard body.reduce(0, { $0 + JSON.quotedLength[Int($1)] }) <= Self.maxTextInJSON else { return nil }
        }
        return String(validating: body, as: UTF8.self)
    }

    /// The header fields as the text of a JSON object.
    package var headersText: String {
        headers.reduce(into: JSONObject()) { $0.set($1.name, $1.value) }.text
    }

    /// Joins header fields of the same name by commas (RFC 9110 section 5.3), and makes names lower case. Values of
    /// Set-Cookie may contain commas, so they are joined by line feeds. Fields whose names are not tokens (section 5.6.2)
    /// are left out, and control characters in values become blanks (section 5.5): six bytes for each of them in JSON
    /// could make an event too long for Redis.
    package static func joined(_ lines: [HeaderField]) -> [HeaderField] {
        var result: [HeaderField] = []
        for line in lines where line.name.utf8.allSatisfy(isOfToken) {
            let (name, value) = (line.name.lowercased(), printable(line.value))
            if let index = result.firstIndex(where: { $0.name == name }) {
                result[index].value += (name == "set-cookie" ? "\n" : ", ") + value
            } else {
                result.append(HeaderField(name, value))
            }
        }
        return result
    }

    private static func isOfToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    private static func printable(_ value: String) -> String {
        func isInvalid(_ byte: UInt8) -> Bool { byte < 0x20 && byte != UInt8(ascii: "\t") || byte == 0x7F }
        guard value.utf8.contains(where: isInvalid) else { return value }
        return String(decoding: value.utf8.map { isInvalid($0) ? UInt8(ascii: " ") : $0 }, as: UTF8.self)
    }
}
