/// The head of a request, as it was received (RFC 9112).
package struct ServerRequest: Sendable, Equatable {
    package let method: String
    /// The path of the target, still percent-encoded. Begins with "/".
    package let path: String
    /// The text after the first "?" of the target, still percent-encoded. Empty if there is none.
    package let query: String
    /// In the order received, with names in lower case.
    package let fields: [(name: String, value: String)]
    /// Where the connection comes from.
    package var client = ClientAddress.unixSocket
    let isHTTP10: Bool

    package init(
        method: String, path: String, query: String = "", fields: [(name: String, value: String)] = [],
        client: ClientAddress = .unixSocket, isHTTP10: Bool = false
    ) {
        (self.method, self.path, self.query, self.fields) = (method, path, query, fields)
        (self.client, self.isHTTP10) = (client, isHTTP10)
    }

    /// The value of a header field, by its name in lower case. Values of several fields of this name are joined by
    /// commas (RFC 9110 section 5.3).
    package subscript(name: String) -> String? {
        let values = fields.filter { $0.name == name }.map(\.value)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    /// Whether the client may send another request on this connection.
    var keepsAlive: Bool {
        let options = (self["connection"] ?? "").lowercased().split(separator: ",").map { option in
            String(option.drop { $0 == " " }.prefix { $0 != " " })
        }
        return isHTTP10 ? options.contains("keep-alive") : !options.contains("close")
    }

    /// Whether the client waits for `100 Continue` before it sends the body.
    var expectsContinue: Bool { !isHTTP10 && self["expect"]?.lowercased() == "100-continue" }

    package static func == (one: Self, other: Self) -> Bool {
        one.method == other.method && one.path == other.path && one.query == other.query
            && one.fields.elementsEqual(other.fields) { $0.name == $1.name && $0.value == $1.value }
    }
}
