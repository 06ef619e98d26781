/// The servers that are known to speak only HTTP/2.
struct HTTP2Origins {
    /// More servers than a worker is likely to use. At this number the set is cleared.
    private static let limit = 1000

    private var origins: Set<String> = []

    func contains(_ url: String) -> Bool { !origins.isEmpty && Self.origin(url).map(origins.contains) ?? false }

    mutating func insert(_ url: String) {
        if origins.count >= Self.limit { origins.removeAll() }
        if let origin = Self.origin(url) { origins.insert(origin) }
    }

    private static func origin(_ url: String) -> String? {
        Authority(url).flatMap { $0.isSecure ? "\($0.host.lowercased()):\($0.port)" : nil }
    }
}
