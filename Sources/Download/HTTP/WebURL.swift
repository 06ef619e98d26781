/// An http or https URL, as far as redirects and file names need it (RFC 3986).
struct WebURL: Sendable, Equatable {
    /// Lower case.
    var scheme: String
    /// With credentials and port.
    private(set) var authority: String
    /// Lower case, without credentials and port.
    let host: String
    /// What a limit of connections is counted by.
    let hostAndPort: String
    /// Begins with "/", or is empty.
    var path: String
    /// Without "?"; nil if there is none.
    var query: String?

    /// nil for what is no absolute http or https URL.
    init?(_ text: String) {
        // By bytes, which is much quicker: it is all ASCII then.
        let text = PercentEncoding.encode(text)[...].utf8
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")), text[colon...].starts(with: "://".utf8) else {
            return nil
        }
        scheme = Substring(text[..<colon]).lowercased()
        guard scheme == "http" || scheme == "https" else { return nil }
        let rest = text[colon...].dropFirst(3).prefix { $0 != UInt8(ascii: "#") }
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        authority = String(Substring(rest[..<end]))
        let bare =
            rest[..<end].lastIndex(of: UInt8(ascii: "@")).map { rest[rest.index(after: $0)..<end] } ?? rest[..<end]
        // An IPv6 address has colons of its own, in brackets.
        let bracket = bare.lastIndex(of: UInt8(ascii: "]")) ?? bare.startIndex
        let beforePort = bare[bracket...].lastIndex(of: UInt8(ascii: ":")) ?? bare.endIndex
        host = Substring(bare[..<beforePort]).lowercased()
        let port = Substring(bare[beforePort...].dropFirst())
        hostAndPort = "\(host):\(port.isEmpty ? scheme == "https" ? "443" : "80" : port)"
        let tail = rest[end...]
        if let mark = tail.firstIndex(of: UInt8(ascii: "?")) {
            path = String(Substring(tail[..<mark]))
            query = String(Substring(tail[mark...].dropFirst()))
        } else {
            path = String(Substring(tail))
        }
        guard !host.isEmpty else { return nil }
    }

    var text: String { "\(scheme)://\(authority)\(path)" + (query.map { "?\($0)" } ?? "") }

    /// `user:password` before the host, as written; nil without.
    private var credentials: Substring? { authority.lastIndex(of: "@").map { authority[..<$0] } }

    /// With the credentials of `origin`, if it is its origin and has none of its own.
    func withCredentials(of origin: WebURL) -> WebURL {
        guard credentials == nil, let theirs = origin.credentials, hasSameOrigin(as: origin) else { return self }
        var result = self
        result.authority = "\(theirs)@\(authority)"
        return result
    }

    /// Scheme, host and port (RFC 6454): what credentials and custom headers must not leave.
    func hasSameOrigin(as other: WebURL) -> Bool {
        scheme == other.scheme && hostAndPort == other.hostAndPort
    }

    /// Where a Location leads from here (RFC 3986 section 5.2); nil if it is no http or https URL.
    func resolve(_ reference: String) -> WebURL? {
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

    /// RFC 3986 section 5.2.4.
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
    var lastComponent: String {
        PercentEncoding.decode(path.split(separator: "/", omittingEmptySubsequences: false).last.map(String.init) ?? "")
    }
}

enum PercentEncoding {
    /// Spaces, control characters and what is not ASCII encoded, as browsers do. What is left has no characters of several
    /// bytes, which to Swift might swallow a "/" or an "@".
    static func encode(_ text: String) -> String {
        guard text.utf8.contains(where: { $0 <= 32 || $0 >= 127 }) else { return text }
        return text.utf8.map {
            $0 <= 32 || $0 >= 127
                ? "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true)
                : String(Unicode.Scalar($0))
        }.joined()
    }

    static func decode(_ text: String) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), rest.count >= 2,
                let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            {
                bytes.append(code)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
