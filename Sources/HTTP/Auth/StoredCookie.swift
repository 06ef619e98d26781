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
    /// Scripts of a page must not read it.
    private let isHTTPOnly: Bool

    /// Reads a line of seven fields that are separated by tabs: domain, whether subdomains are included, path, whether
    /// the cookie is for https only, expiry, name and value. nil for a comment or an empty line.
    ///
    /// - Throws: `Unreadable` for any other line.
    package init?(line: String) throws(Unreadable) {
        isHTTPOnly = line.hasPrefix(Self.httpOnly)
        let text = isHTTPOnly ? line.dropFirst(Self.httpOnly.count) : line[...]
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

    /// Reads a Set-Cookie field of a response of `url` (RFC 6265 section 5.3). nil if it is not a cookie, or one that
    /// `url` may not set.
    package init?(field: String, from url: WebURL, at now: Int64) {
        var parts = field.split(separator: ";").map { part in
            part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(\.trimmed)
        }
        guard !parts.isEmpty else { return nil }
        let pair = parts.removeFirst()
        guard pair.count == 2, !pair[0].isEmpty, pair[0].utf8.count + pair[1].utf8.count <= CookieJar.maxBytes,
            !(pair[0] + pair[1]).utf8.contains(where: { $0 < 0x20 || $0 == 0x7F })
        else { return nil }
        let attributes = Dictionary(
            parts.map { ($0[0].lowercased(), $0.count > 1 ? String($0[1]) : "") }, uniquingKeysWith: { $1 })
        let given = String((attributes["domain"] ?? "").lowercased().drop { $0 == "." })
        // A cookie for a whole top-level domain would go to strangers. That domain may end with a dot.
        guard
            given.isEmpty || given == url.host
                || given.dropLast().contains(".") && Self.isSubdomain(url.host, of: given)
        else { return nil }
        (name, value) = (String(pair[0]), String(pair[1]))
        (domain, isForSubdomains) = (given.isEmpty ? url.host : given, !given.isEmpty && !Self.isAddress(url.host))
        let folder = url.path.lastIndex(of: "/").map { String(url.path[..<$0]) } ?? ""
        // A control character, which no URL has, would break the line of a file.
        let isPath = attributes["path"].map { $0.hasPrefix("/") && $0.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F } }
        path = (isPath == true ? attributes["path"] : nil) ?? (folder.isEmpty ? "/" : folder)
        (isSecure, isHTTPOnly) = (attributes["secure"] != nil, attributes["httponly"] != nil)
        // Whoever is on the way of plain http must not set what only a server of https may (RFC 6265bis section 5.7).
        guard !isSecure || url.scheme == "https" else { return nil }
        let lowered = name.lowercased()
        if lowered.hasPrefix("__secure-"), !isSecure { return nil }
        if lowered.hasPrefix("__host-"), !isSecure || !given.isEmpty || attributes["path"] != "/" { return nil }
        // 0 means the end of the session, so a time in the past is at least 1.
        if let age = attributes["max-age"].flatMap({ Int64($0) }) {
            expires = age <= 0 ? 1 : now.addingReportingOverflow(age).overflow ? 0 : now + age
        } else {
            expires = attributes["expires"].flatMap(HTTPDate.parse).map { max($0, 1) } ?? 0
        }
    }

    /// The cookie as a line of a file.
    package var line: String {
        [
            (isHTTPOnly ? Self.httpOnly : "") + (isForSubdomains ? "." : "") + domain,
            isForSubdomains ? "TRUE" : "FALSE",
            path, isSecure ? "TRUE" : "FALSE", "\(expires)", name, value,
        ].joined(separator: "\t")
    }

    /// Whether both have the same name, domain and path, so that there can be only one of them.
    package func isSameCookie(as other: StoredCookie) -> Bool {
        (name, domain, path) == (other.name, other.domain, other.path)
    }

    package func hasSameDomain(as other: StoredCookie) -> Bool { domain == other.domain }

    /// Whether this cookie, which came without TLS, would replace or hide one that is for https only.
    package func overlays(_ other: StoredCookie) -> Bool {
        other.isSecure && name == other.name
            && (domain == other.domain || Self.isSubdomain(domain, of: other.domain)
                || Self.isSubdomain(other.domain, of: domain))
            && (path == other.path || path.hasPrefix(other.path.hasSuffix("/") ? other.path : other.path + "/"))
    }

    private static let httpOnly = "#HttpOnly_"

    package func isPast(at seconds: Int64) -> Bool { expires != 0 && expires <= seconds }

    /// Whether a request to `url` carries the cookie (RFC 6265 section 5.4).
    func isFor(_ url: WebURL) -> Bool {
        guard url.host == domain || isForSubdomains && Self.isSubdomain(url.host, of: domain) else { return false }
        guard !isSecure || url.scheme == "https" else { return false }
        let asked = url.path.isEmpty ? "/" : url.path
        return asked.hasPrefix(path)
            && (path.hasSuffix("/") || asked == path || asked.dropFirst(path.count).first == "/")
    }

    /// Whether `host` is beneath `domain` (RFC 6265 section 5.1.3). An IP address is beneath no domain, because the
    /// addresses that end with the same numbers have different owners.
    private static func isSubdomain(_ host: String, of domain: String) -> Bool {
        host.hasSuffix("." + domain) && !isAddress(host)
    }

    private static func isAddress(_ host: String) -> Bool { host.hasPrefix("[") || IPAddress(host) != nil }
}
