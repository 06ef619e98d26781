/// A cookie of a file in the format of Netscape, which browsers' extensions, curl and wget write.
package struct StoredCookie: Sendable, Equatable {
    package let name: String
    package let value: String
    /// Lower case, without a dot before it.
    private let domain: String
    private let isForSubdomains: Bool
    private let path: String
    private let isSecure: Bool
    /// Unix seconds; 0 for one that ends with the browser's session.
    private let expires: Int64

    /// Reads a line: domain, whether for its subdomains, path, whether for https only, expiry, name and value, with a tab
    /// between each two. nil for a comment and an empty line.
    ///
    /// - Throws: `Unreadable` for anything else.
    package init?(line: String) throws(Unreadable) {
        let httpOnly = "#HttpOnly_"
        let text = line.hasPrefix(httpOnly) ? line.dropFirst(httpOnly.count) : line[...]
        if text.hasPrefix("#") || text.allSatisfy(\.isWhitespace) { return nil }
        var fields = text.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
        // A cookie without a value may have lost its last tab.
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

    /// RFC 6265 section 5.4.
    func isFor(_ url: WebURL) -> Bool {
        guard url.host == domain || isForSubdomains && url.host.hasSuffix("." + domain) else { return false }
        guard !isSecure || url.scheme == "https" else { return false }
        let asked = url.path.isEmpty ? "/" : url.path
        return asked.hasPrefix(path)
            && (path.hasSuffix("/") || asked == path || asked.dropFirst(path.count).first == "/")
    }
}
