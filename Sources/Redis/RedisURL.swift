/// Where a Redis is and how to sign in: `redis://[user:password@]host[:port][/db]` or `unix:///path[?db=N&password=P]`.
package struct RedisURL: Sendable, Equatable {
    package enum Address: Sendable, Equatable, CustomStringConvertible {
        case tcp(host: String, port: Int)
        case unix(path: String)

        package var description: String {
            switch self {
            case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
            case .unix(let path): path
            }
        }
    }

    package var address = Address.tcp(host: "127.0.0.1", port: 6379)
    package var user: String?
    package var password: String?
    package var database = 0

    /// The URL without its password, for messages.
    package var redacted: String {
        switch address {
        case .tcp: "redis://\(address)" + (database == 0 ? "" : "/\(database)")
        case .unix(let path): "unix://\(path)"
        }
    }

    /// Throws `.badURL` with a sentence that says what is wrong.
    package init(_ text: String) throws(RedisError) {
        guard let colon = text.firstRange(of: "://") else {
            // Not echoed: it may hold a password.
            throw RedisError(.badURL, "this is no Redis URL: write redis://host:port or unix:///path/to/socket")
        }
        let (scheme, rest) = (text[..<colon.lowerBound], text[colon.upperBound...])
        let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let query = parts.count > 1 ? Self.query(parts[1]) : [:]
        switch scheme {
        case "redis": try readTCP(parts[0])
        case "unix":
            guard parts[0].hasPrefix("/") else {
                throw RedisError(.badURL, "a unix:// URL holds an absolute path: unix:///run/redis.sock")
            }
            address = .unix(path: String(parts[0]))
        default:
            throw RedisError(
                .badURL, "\(scheme):// is not supported: write redis://host:port or unix:///path/to/socket")
        }
        user = user ?? query["user"]
        password = password ?? query["password"]
        if let db = query["db"] { database = try Self.number(db, what: "database", in: 0...Int(Int32.max)) }
    }

    private mutating func readTCP(_ text: Substring) throws(RedisError) {
        var hostAndPath = text
        if let at = text.lastIndex(of: "@") {
            let credentials = text[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            user = credentials[0].isEmpty ? nil : Self.decode(credentials[0])
            // As redis-cli reads it: without a colon, what stands there is the password.
            password = credentials.count > 1 ? Self.decode(credentials[1]) : Self.decode(credentials[0])
            if credentials.count == 1 { user = nil }
            hostAndPath = text[text.index(after: at)...]
        }
        let parts = hostAndPath.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count > 1, !parts[1].isEmpty {
            database = try Self.number(String(parts[1]), what: "database", in: 0...Int(Int32.max))
        }
        var host = parts[0]
        var port = 6379
        let bracket = host.lastIndex(of: "]")
        if let colon = host.lastIndex(of: ":"), bracket.map({ $0 < colon }) ?? true {
            port = try Self.number(String(host[host.index(after: colon)...]), what: "port", in: 1...65535)
            host = host[..<colon]
        }
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        address = .tcp(host: host.isEmpty ? "127.0.0.1" : String(host), port: port)
    }

    private static func number(_ text: String, what: String, in range: ClosedRange<Int>) throws(RedisError) -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw RedisError(
                .badURL,
                "the Redis \(what) in the URL must be a number from \(range.lowerBound) to \(range.upperBound) (special characters of a password are written as %XX)"
            )
        }
        return number
    }

    private static func query(_ text: Substring) -> [String: String] {
        var result: [String: String] = [:]
        for pair in text.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            result[String(parts[0])] = parts.count > 1 ? decode(parts[1]) : ""
        }
        return result
    }

    /// Undoes percent encoding.
    private static func decode(_ text: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) {
                bytes.append(code)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
