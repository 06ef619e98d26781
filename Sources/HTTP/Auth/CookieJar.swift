/// The cookies of one chain of redirects. A cookie goes back only to the origin that set it. Cookies from a file go to
/// the hosts that the file names.
package struct CookieJar: Sendable {
    private var cookies: [(origin: WebURL, name: String, value: String)] = []

    private let stored: [StoredCookie]

    /// Starts with cookies from a file.
    package init(_ stored: [StoredCookie] = []) { self.stored = stored }

    /// The limits that browsers have, too (RFC 6265 section 6.1): for the bytes of a cookie, and for an origin's cookies.
    static let maxBytes = 4096
    static let maxCount = 50
    /// The limits for all origins: bytes and cookies. The parts of a download share the cookies of their redirects, so
    /// that servers could add to them without end.
    static let (maxBytesOfAll, maxCountOfAll) = (64 << 10, 200)

    private var bytes = 0

    /// Reads the value of a Set-Cookie field. Attributes are ignored, because they do not matter within one chain. A
    /// cookie that no request could carry is dropped, and so is one beyond the limits.
    package mutating func set(_ line: String, from origin: WebURL) {
        let parts = line.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let pair = parts.map(\.trimmed)
        guard pair.count == 2, !pair[0].isEmpty, pair[0].utf8.count + pair[1].utf8.count <= Self.maxBytes,
            !pair.contains(where: { $0.utf8.contains { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F } })
        else { return }
        if let known = cookies.firstIndex(where: { $0.origin.hasSameOrigin(as: origin) && $0.name == pair[0] }) {
            remove(known)
        }
        guard cookies.count(where: { $0.origin.hasSameOrigin(as: origin) }) < Self.maxCount else { return }
        cookies.append((origin, pair[0], pair[1]))
        bytes += Self.length(of: cookies[cookies.endIndex - 1])
        // The oldest ones go.
        while bytes > Self.maxBytesOfAll || cookies.count > Self.maxCountOfAll { remove(0) }
    }

    private mutating func remove(_ index: Int) { bytes -= Self.length(of: cookies.remove(at: index)) }

    private static func length(of cookie: (origin: WebURL, name: String, value: String)) -> Int {
        cookie.name.utf8.count + cookie.value.utf8.count
    }

    package func header(for url: WebURL) -> String? {
        let mine = cookies.filter { $0.origin.hasSameOrigin(as: url) }
        let names = Set(mine.map(\.name))
        let others = stored.filter { $0.isFor(url) && !names.contains($0.name) }
        let pairs = others.map { "\($0.name)=\($0.value)" } + mine.map { "\($0.name)=\($0.value)" }
        return pairs.isEmpty ? nil : pairs.joined(separator: "; ")
    }
}
