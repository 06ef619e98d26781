/// A cookie from a file in Netscape's format, which browser extensions, curl and wget write.
package struct StoredCookie: Sendable, Equatable {
    package let name: String
    package let value: String
    /// In lower case, without a leading dot.
    private let domain: String
    private let isForSubdomains: Bool
    private let path: String
    private let isSecure: Bool
    /// Unix seconds; 0 for a cookie that ends with the browser's session.
    private let expires: Int64

    /// Reads a line of seven fields that are separated by tabs: domain, whether subdomains are included, path, whether
    /// the cookie is for https only, expiry, name and value. nil for a comment or an empty line.
    ///
    /// - Throws: `Unreadable` for any other line.
    package init?(line: String) throws(Unreadable) {
        let httpOnly = "#HttpOnly_"
        let text = line.hasPrefix(httpOnly) ? line.dropFirst(httpOnly.count) : line[...]
        if text.hasPrefix("#") || text.allSatisfy(\.isWhitespace) { return nil }
        var fields = text.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
        // A line with an empty value may have lost its last tab.
        if fields.count == 6 { fields.append("") }
        guard fields.count == 7, let expires = Double(fields[4]), abs(expires) < 1e15, !fields[5].isEmpty,
            !(fields[5] + fields[6]).utf8.contains(where: { $0 < 0x20 || $0 == 0x7F })
        else { throw Unreadable() }
        domain = String(fields[0].lowercased().drop { $0 == "." })
        isForSubdomains = fields[1].uppercased() == "TRUE" || fields[0].hasPrefix(".")
        (path, isSecure) = (fields[2], fields[3].uppercased() == "TRUE")
        (self.expires, name, value) = (Int64(expires), fields[5], fields[6])
    }

    package struct Unreadable: Error, Sendable {}

    package func isPast(at seconds: Int64) -> Bool { expires != 0 && expires <= seconds }

    /// Whether a request to `url` carries the cookie (RFC 6265 section 5.4).
    func isFor(_ url: WebURL) -> Bool {
        guard url.host == domain || isForSubdomains && url.host.hasSuffix("." + domain) else { return false }
        guard !isSecure || url.scheme == "https" else { return false }
        let asked = url.path.isEmpty ? "/" : url.path
        return asked.hasPrefix(path)
            && (path.hasSuffix("/") || asked == path || asked.dropFirst(path.count).first == "/")
    }
}
