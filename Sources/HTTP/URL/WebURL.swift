package import HaulContract

/// An http or https URL, as far as redirects and file names need it (RFC 3986), or the URL of an object in a bucket.
///
/// libcurl reads each URL as well. A URL whose host the two read differently is refused, and the port is the one that
/// libcurl reads. So connections are counted, and credentials used, for the server that gets the request.
package struct WebURL: Sendable, Equatable {
    /// Lower case.
    package var scheme: String
    /// With credentials and port.
    private(set) var authority: String
    /// In lower case, without credentials and port; an international name in ASCII (xn--…).
    package let host: String
    /// The key under which connections to the server are counted.
    package private(set) var hostAndPort: String
    /// Begins with "/", or is empty.
    package var path: String
    /// Without "?"; nil if there is none.
    package var query: String?

    /// nil if `text` is not an absolute http or https URL.
    package init?(_ text: String) {
        // Works on bytes, which is much faster. Everything is ASCII once it is encoded.
        let text = PercentEncoding.encode(text)[...].utf8
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")), text[colon...].starts(with: "://".utf8) else {
            return nil
        }
        scheme = Substring(text[..<colon]).lowercased()
        guard scheme == "http" || scheme == "https" else { return nil }
        let rest = text[colon...].dropFirst(3).prefix { $0 != UInt8(ascii: "#") }
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        let given = rest[..<end]
        let bare = given.lastIndex(of: UInt8(ascii: "@")).map { given[given.index(after: $0)...] } ?? given
        // An IPv6 address has colons of its own, in brackets.
        let bracket = bare.lastIndex(of: UInt8(ascii: "]")) ?? bare.startIndex
        let beforePort = bare[bracket...].lastIndex(of: UInt8(ascii: ":")) ?? bare.endIndex
        guard let name = Self.ascii(Substring(bare[..<beforePort])) else { return nil }
        host = name
        // The last "@" ends the credentials. Other parsers take the first one, so earlier ones are encoded.
        var login = Substring(given[..<bare.startIndex].dropLast())
        if !login.isEmpty {
            login = login.replacing("@", with: "%40")
            // A NUL would end the C string early.
            guard !login.contains("%00") else { return nil }
        }
        authority = "\(bare.startIndex == given.startIndex ? "" : login + "@")\(name)\(Substring(bare[beforePort...]))"
        hostAndPort = host
        let pathAndQuery = rest[end...]
        if let mark = pathAndQuery.firstIndex(of: UInt8(ascii: "?")) {
            path = String(Substring(pathAndQuery[..<mark]))
            query = String(Substring(pathAndQuery[mark...].dropFirst()))
        } else {
            path = String(Substring(pathAndQuery))
        }
        guard !host.isEmpty, let port = portOfLibcurl else { return nil }
        hostAndPort = "\(host):\(port)"
    }

    /// The URL of an object, `s3://BUCKET/KEY`, perhaps with a version; nil if `text` is not one. No initializer reads it,
    /// so that no redirect leads to an object.
    package static func object(_ text: String) -> WebURL? {
        guard URLRule.isObject(text), URLRule.fault(text, of: .download) == nil else { return nil }
        let rest = PercentEncoding.encode(text)[...].utf8.dropFirst("s3://".utf8.count)
        let bucket = rest.prefix { $0 != UInt8(ascii: "/") }
        let path = rest[bucket.endIndex...].prefix { $0 != UInt8(ascii: "?") }
        let query = rest[path.endIndex...].dropFirst()
        return WebURL(
            bucket: String(Substring(bucket)), path: String(Substring(path)),
            query: query.isEmpty ? nil : String(Substring(query)))
    }

    private init(bucket: String, path: String, query: String?) {
        (scheme, authority, self.path, self.query) = ("s3", bucket, path, query)
        host = bucket.lowercased()
        hostAndPort = host
    }

    /// Whether this is the URL of an object.
    package var isObject: Bool { scheme == "s3" }

    /// The bucket of an object's URL.
    package var bucket: String { authority }

    /// The key of an object's URL, percent-decoded.
    package var key: String { PercentEncoding.decode(String(path.dropFirst())) }

    /// Of an object, percent-decoded; nil for the newest version.
    package var version: String? {
        isObject ? query.map { PercentEncoding.decode(String($0.dropFirst("versionId=".utf8.count))) } : nil
    }

    /// The URL of one version of an object. This URL, if it names a version already, or if the bucket has none.
    package func pinned(to version: String?) -> WebURL {
        // A bucket without versions sends none, or "null".
        guard isObject, query == nil, let version, !version.isEmpty, version != "null", version.utf8.count <= 1024
        else { return self }
        var result = self
        result.query = "versionId=" + PercentEncoding.component(version)
        return result
    }

    /// The port that libcurl reads; nil if it reads another scheme or host, or no URL at all.
    private var portOfLibcurl: Int? {
        guard let theirs = Authority(unmasked), theirs.isSecure == (scheme == "https") else { return nil }
        guard host.hasPrefix("[") else { return theirs.host.lowercased() == host ? theirs.port : nil }
        // libcurl writes an IPv6 address in its shortest form, and keeps its zone separately.
        let own = IPAddress(String(host.dropFirst().prefix { $0 != "%" && $0 != "]" }))
        return own != nil && own == IPAddress(String(theirs.host.prefix { $0 != "%" })) ? theirs.port : nil
    }

    /// In lower case. The code that connects and the code that counts connections see the same name.
    private static func ascii(_ host: Substring) -> String? {
        // An IPv6 address may name its zone after a "%".
        guard host.utf8.contains(UInt8(ascii: "%")), host.utf8.first != UInt8(ascii: "[") else {
            return host.lowercased()
        }
        return HostName.ascii(PercentEncoding.decode(String(host)))
    }

    /// The whole URL, with credentials and query: for requests and records, and never for a message, an event or a log.
    package var unmasked: String { "\(scheme)://\(authority)\(path)" + (query.map { "?\($0)" } ?? "") }

    /// `user:password` before the host, as written; nil if there is none.
    private var credentials: Substring? { authority.lastIndex(of: "@").map { authority[..<$0] } }

    /// Adds the credentials of `origin`, if this URL has the same origin and none of its own.
    package func withCredentials(of origin: WebURL) -> WebURL {
        guard credentials == nil, let theirs = origin.credentials, hasSameOrigin(as: origin) else { return self }
        var result = self
        result.authority = "\(theirs)@\(authority)"
        return result
    }

    /// User name and password, percent-decoded.
    package struct Login: Sendable, Equatable {
        let user: String
        let password: String
    }

    package var login: Login? {
        credentials.map { text in
            let parts = text.utf8.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
                .map { PercentEncoding.decode(String(Substring($0))) }
            return Login(user: parts[0], password: parts.count > 1 ? parts[1] : "")
        }
    }

    package var withoutCredentials: WebURL {
        var result = self
        if let credentials { result.authority.removeFirst(credentials.utf8.count + 1) }
        return result
    }

    /// Scheme, host and port as one text.
    package var origin: String { "\(scheme)://\(hostAndPort)" }

    /// The target of a request: the path as libcurl requests it, and the query.
    package var target: String {
        let path = path.isEmpty ? "/" : path.contains("/.") ? Self.withoutDots(path) : path
        return path + (query.map { "?\($0)" } ?? "")
    }

    /// Whether scheme, host and port are the same (RFC 6454). Credentials and custom headers must not leave the origin.
    package func hasSameOrigin(as other: WebURL) -> Bool {
        scheme == other.scheme && hostAndPort == other.hostAndPort
    }

    /// The URL that a Location field leads to from here (RFC 3986 section 5.2); nil if it is not an http or https URL.
    package func resolve(_ reference: String) -> WebURL? {
        let reference = String(PercentEncoding.encode(reference).prefix { $0 != "#" })
        if let absolute = WebURL(reference) { return absolute }
        let beforePath = reference.prefix { $0 != "/" && $0 != "?" }
        if beforePath.contains(":") { return nil }
        if reference.hasPrefix("//") { return WebURL(scheme + ":" + reference) }
        var result = self
        if reference.isEmpty { return result }
        let mark = reference.firstIndex(of: "?")
        let referencePath = String(reference[..<(mark ?? reference.endIndex)])
        result.query =
            mark.map { String(reference[reference.index(after: $0)...]) } ?? (referencePath.isEmpty ? query : nil)
        if referencePath.hasPrefix("/") {
            result.path = Self.withoutDots(referencePath)
        } else if !referencePath.isEmpty {
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "/"
            result.path = Self.withoutDots(folder + referencePath)
        }
        return result
    }

    /// Removes dot segments (RFC 3986 section 5.2.4).
    private static func withoutDots(_ path: String) -> String {
        var kept: [Substring] = []
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        for (index, part) in parts.enumerated() {
            let isLast = index == parts.count - 1
            switch part {
            case ".": if isLast { kept.append("") }
            case "..":
                _ = kept.popLast()
                if isLast { kept.append("") }
            default: kept.append(part)
            }
        }
        return "/" + kept.joined(separator: "/")
    }

    /// The last part of the path, percent-decoded; empty if the path ends in "/".
    package var lastComponent: String {
        PercentEncoding.decode(path.split(separator: "/", omittingEmptySubsequences: false).last.map(String.init) ?? "")
    }
}

extension WebURL: CustomStringConvertible {
    /// Without credentials, and with `[masked]` instead of the query, so that an interpolated URL reveals no secret.
    package var description: String { MaskedURL.text(unmasked) }
}

extension Job {
    /// The first URL that no worker could request, masked; nil if there is none. The gate and the client refuse all
    /// other faults of a URL, but only libraries know which international names are valid.
    package var unreadableURL: String? {
        urls.first { WebURL($0) == nil && (kind != .download || WebURL.object($0) == nil) }.map(MaskedURL.text)
    }
}
