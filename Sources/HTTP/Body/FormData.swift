/// What the parts of a multipart/form-data body have in common (RFC 7578).
package enum FormData {
    /// The Content-Disposition of a part. `filename`: nil for an ordinary field.
    package static func disposition(_ name: String, filename: String? = nil) -> String {
        "Content-Disposition: form-data; name=\"\(escaped(name))\""
            + (filename.map { "; filename=\"\(escaped($0))\"" } ?? "")
    }

    /// Escapes as browsers do:
    /// https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data.
    private static func escaped(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "%22"
            case "\r": result += "%0D"
            case "\n": result += "%0A"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
