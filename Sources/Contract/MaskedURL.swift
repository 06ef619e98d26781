/// URLs without secrets, for events, logs and messages.
package enum MaskedURL {
    /// For messages to the user who gave the URL: keeps the query, so that similar URLs can be told apart. Removes the
    /// password, and replaces the values of parameters that are signatures or tokens by `[masked]`.
    package static func keepingQuery(_ url: String) -> String {
        let parts = url.utf8.split(separator: UInt8(ascii: "#"), maxSplits: 1, omittingEmptySubsequences: false)
        let whole = parts[0].split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        let address = text(String(Substring(whole[0])))
        guard whole.count > 1 else { return address }
        let query = whole[1].split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false).map { parameter in
            let name = String(Substring(parameter.prefix { $0 != UInt8(ascii: "=") }))
            return isSecret(name) ? name + "=[masked]" : String(Substring(parameter))
        }
        return address + "?" + query.joined(separator: "&")
    }

    /// Whether a query parameter of this name gives access: the names that AWS, Google, Azure and common APIs use.
    private static func isSecret(_ name: String) -> Bool {
        let name = name.lowercased()
        return [
            "signature", "sig", "token", "access_token", "id_token", "auth", "api_key", "apikey", "key", "password",
            "secret", "awsaccesskeyid",
        ].contains(name)
            || ["-signature", "-credential", "-security-token"].contains { name.hasSuffix($0) }
    }

    /// The host of a masked URL in lower case, without the brackets of an IPv6 address; nil if there is none.
    package static func host(_ url: String) -> String? {
        guard let scheme = url.byteRange(of: "://") else { return nil }
        let authority = url[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let isBracketed = authority.hasPrefix("[")
        let host = authority.dropFirst(isBracketed ? 1 : 0).prefix { $0 != (isBracketed ? "]" : ":") }
        return host.isEmpty ? nil : host.lowercased()
    }

    /// The host as in a limit of hosts: with its port if the URL has one, an IPv6 address in brackets. nil without a host.
    package static func authority(_ url: String) -> String? {
        guard let scheme = url.byteRange(of: "://") else { return nil }
        let authority = url[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let host = authority.lastIndex(of: "@").map { authority[authority.index(after: $0)...] } ?? authority
        return host.isEmpty ? nil : host.lowercased()
    }

    /// For events and logs: removes the credentials and the fragment, and replaces the whole query by `?[masked]`.
    package static func text(_ url: String) -> String {
        let bytes = url.utf8
        guard let end = bytes.firstIndex(where: { [UInt8(ascii: "?"), UInt8(ascii: "#")].contains($0) }) else {
            return withoutCredentials(url)
        }
        let suffix = bytes[end] == UInt8(ascii: "?") ? "?[masked]" : ""
        return withoutCredentials(String(Substring(bytes[..<end]))) + suffix
    }

    /// For output that is the user's own: removes the credentials only.
    package static func withoutCredentials(_ url: String) -> String {
        // Compare bytes: Swift joins "@" and a following combining mark into one character.
        let bytes = url.utf8
        guard let scheme = bytes.indices.first(where: { bytes[$0...].starts(with: "://".utf8) }) else { return url }
        let authority = bytes[scheme...].dropFirst(3)
        let ends = [UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#")]
        guard let at = authority.prefix(while: { !ends.contains($0) }).lastIndex(of: UInt8(ascii: "@")) else {
            return url
        }
        return String(Substring(bytes[..<authority.startIndex])) + String(Substring(bytes[at...].dropFirst()))
    }
}
