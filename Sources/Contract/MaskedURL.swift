/// URLs without secrets, for events, logs and messages.
package enum MaskedURL {
    /// `url` without credentials and fragment. `?[masked]` replaces the query.
    package static func text(_ url: String) -> String {
        // Compare bytes: Swift joins "@" and a following combining mark into one character.
        var rest = url[...].utf8
        if let fragment = rest.firstIndex(of: UInt8(ascii: "#")) { rest = rest[..<fragment] }
        var suffix = ""
        if let query = rest.firstIndex(of: UInt8(ascii: "?")) {
            rest = rest[..<query]
            suffix = "?[masked]"
        }
        guard let scheme = rest.indices.first(where: { rest[$0...].starts(with: "://".utf8) }) else {
            return String(Substring(rest)) + suffix
        }
        let authority = rest[scheme...].dropFirst(3)
        guard let at = authority.prefix(while: { $0 != UInt8(ascii: "/") }).lastIndex(of: UInt8(ascii: "@")) else {
            return String(Substring(rest)) + suffix
        }
        return String(Substring(rest[..<authority.startIndex])) + String(Substring(rest[at...].dropFirst())) + suffix
    }
}
