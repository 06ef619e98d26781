/// What a server answered to a request, as the job's hash keeps it.
package struct StoredResponse: Sendable, Equatable {
    package var status: Int
    /// Names in lower case, each once.
    package var headers: [HeaderField]
    package var body: [UInt8]
    /// What was asked, as a digest: another question is not answered by it.
    package var question: String
    package var method: String
    /// Redis' time, unix ms, at which the server gave it or said that it is still right.
    package var validated: Int64
    /// Bytes that an upload has sent; nil for a request.
    package var uploaded: Int64?
    /// Of an upload in several requests: a JSON list of what came of each file.
    package var files: String?

    package init(
        status: Int, headers: [HeaderField], body: [UInt8], question: String, method: String, validated: Int64
    ) {
        (self.status, self.headers, self.body, self.question) = (status, headers, body, question)
        (self.method, self.validated) = (method, validated)
    }

    package subscript(header: String) -> String? { headers.first { $0.name == header }?.value }

    /// The body, if it is a text that a hash and an event can have as it is.
    package var text: String? {
        body.contains(0) ? nil : String(validating: body, as: UTF8.self)
    }

    /// The header fields as a JSON object.
    package var headersText: String {
        headers.reduce(into: JSONObject()) { $0.set($1.name, $1.value) }.text
    }

    /// Header lines as an object has them: lines of one name are joined by commas (RFC 9110 section 5.3), but those of
    /// Set-Cookie, which have commas themselves, by line feeds.
    package static func joined(_ lines: [HeaderField]) -> [HeaderField] {
        var result: [HeaderField] = []
        for line in lines {
            let name = line.name.lowercased()
            if let index = result.firstIndex(where: { $0.name == name }) {
                result[index].value += (name == "set-cookie" ? "\n" : ", ") + line.value
            } else {
                result.append(HeaderField(name, line.value))
            }
        }
        return result
    }
}
