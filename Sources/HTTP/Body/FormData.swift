import HaulContract

/// What the parts of a multipart/form-data body have in common (RFC 7578).
package enum FormData {
    /// The Content-Disposition of a part. `filename`: nil for an ordinary field.
    package static func disposition(_ name: String, filename: String? = nil) -> String {
        func quoted(_ text: String) -> String { "\"" + text.escaped { escapes[$0] } + "\"" }
        return "Content-Disposition: form-data; name=\(quoted(name))"
            + (filename.map { "; filename=\(quoted($0))" } ?? "")
    }

    /// Escapes as browsers do:
    /// https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data.
    private static let escapes: [Unicode.Scalar: String] = ["\"": "%22", "\r": "%0D", "\n": "%0A"]
}
