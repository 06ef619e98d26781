/// The address of a Redis, and the credentials for signing in.
///
///     redis://[user:password@]host[:port][/db]
///     unix:///path[?db=N&user=U&password=P]
///     redis+sentinel://[user:password@]host[:port],host[:port]…/name[/db]
///     redis+cluster://[user:password@]host[:port],host[:port]…
///
/// `rediss` instead of `redis` means TLS. Then `?ca=FILE` adds certificate authorities, and `cert=FILE&key=FILE` names
/// the client's certificate. `sentinel_user` and `sentinel_password` are the credentials for sentinels.
package struct RedisURL: Sendable, Equatable {
    package enum Address: Sendable, Equatable, Hashable, CustomStringConvertible {
        case tcp(host: String, port: Int)
        case unix(path: String)

        package var description: String {
            switch self {
            case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
            case .unix(let path): path
            }
        }
    }

    /// How the client finds the server for its commands.
    package enum Kind: Sendable, Equatable {
        /// The server at the address. If this server is a node of a cluster, the client follows its MOVED replies.
        case single
        /// The primary with this name. The addresses are those of sentinels.
        case sentinel(name: String)
        /// The cluster node that serves the queue's slot. The addresses are those of any nodes.
        case cluster
    }

    /// Paths of PEM files.
    package struct TLSOptions: Sendable, Equatable {
        package var authorities: String?
        package var certificate: String?
        package var key: String?
    }

    package var kind = Kind.single
    /// Never empty. More than one address only for sentinels and clusters.
    package var addresses = [Address.tcp(host: "127.0.0.1", port: 6379)]
    package var user: String?
    package var password: String?
    package var sentinelUser: String?
    package var sentinelPassword: String?
    package var database = 0
    package var tls: TLSOptions?

    /// The URL without credentials and query, for messages.
    package var redacted: String {
        if case .unix(let path) = addresses[0] { return "unix://\(path)" }
        let scheme = tls == nil ? "redis" : "rediss"
        let hosts = addresses.map(\.description).joined(separator: ",")
        let suffix = database == 0 ? "" : "/\(database)"
        return switch kind {
        case .single: "\(scheme)://\(hosts)\(suffix)"
        case .sentinel(let name): "\(scheme)+sentinel://\(hosts)/\(name)\(suffix)"
        case .cluster: "\(scheme)+cluster://\(hosts)"
        }
    }

    /// - Throws: `.badURL` with a sentence that says what is wrong.
    package init(_ text: String) throws(RedisError) {
        guard let colon = text.firstRange(of: "://") else {
            // The message does not contain the text, which may hold a password.
            throw RedisError(.badURL, "this is not a Redis URL: write redis://host:port or unix:///path/to/socket")
        }
        let (scheme, rest) = (text[..<colon.lowerBound], text[colon.upperBound...])
        let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let query = parts.count > 1 ? Self.query(parts[1]) : [:]
        let words = scheme.split(separator: "+", maxSplits: 1)
        switch (words.first, words.dropFirst().first) {
        case ("redis", let variant), ("rediss", let variant):
            switch variant {
            case nil: kind = .single
            case "sentinel": kind = .sentinel(name: "")
            case "cluster": kind = .cluster
            default: throw Self.unknown(scheme)
            }
            try readTCP(parts[0])
            if words[0] == "rediss" {
                tls = TLSOptions(authorities: query["ca"], certificate: query["cert"], key: query["key"])
            } else if let name = ["ca", "cert", "key"].first(where: { query[$0] != nil }) {
                throw RedisError(.badURL, "\(name)= is for TLS: write rediss:// instead of redis://")
            }
        case ("unix", nil):
            guard parts[0].hasPrefix("/") else {
                throw RedisError(.badURL, "a unix:// URL holds an absolute path: unix:///run/redis.sock")
            }
            addresses = [.unix(path: String(parts[0]))]
        default: throw Self.unknown(scheme)
        }
        user = user ?? query["user"]
        password = password ?? query["password"]
        sentinelUser = query["sentinel_user"]
        sentinelPassword = query["sentinel_password"]
        if let db = query["db"] { database = try Self.number(db, what: "database", in: 0...Int(Int32.max)) }
        if kind == .cluster, database != 0 {
            throw RedisError(.badURL, "a Redis Cluster has database 0 only: leave the number out")
        }
    }

    private static func unknown(_ scheme: Substring) -> RedisError {
        RedisError(
            .badURL,
            "\(scheme):// is not supported: write redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
    }

    private mutating func readTCP(_ text: Substring) throws(RedisError) {
        var hostAndPath = text
        if let at = text.lastIndex(of: "@") {
            let credentials = text[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            // Without a colon the whole text is the password, as in redis-cli.
            if credentials.count > 1, !credentials[0].isEmpty { user = Self.decode(credentials[0]) }
            password = Self.decode(credentials[credentials.count - 1])
            hostAndPath = text[text.index(after: at)...]
        }
        var path = hostAndPath.split(separator: "/", omittingEmptySubsequences: false)
        let hosts = path.removeFirst().split(separator: ",", omittingEmptySubsequences: false)
        if case .sentinel = kind {
            guard let name = path.first, !name.isEmpty else {
                throw RedisError(
                    .badURL,
                    "a sentinel URL ends with the primary's name: redis+sentinel://host:26379,host:26379/mymaster"
                )
            }
            kind = .sentinel(name: Self.decode(name))
            path.removeFirst()
        }
        if let database = path.first, !database.isEmpty {
            self.database = try Self.number(String(database), what: "database", in: 0...Int(Int32.max))
        }
        let port = if case .sentinel = kind { 26379 } else { 6379 }
        guard hosts.count == 1 || kind != .single else {
            throw RedisError(
                .badURL, "several hosts are for redis+sentinel:// or redis+cluster://, a redis:// URL holds one")
        }
        addresses = []
        for host in hosts { addresses.append(try Self.address(host, port: port)) }
    }

    private static func address(_ text: Substring, port: Int) throws(RedisError) -> Address {
        var (host, port) = (text, port)
        let bracket = host.lastIndex(of: "]")
        if let colon = host.lastIndex(of: ":"), bracket.map({ $0 < colon }) ?? true {
            port = try number(String(host[host.index(after: colon)...]), what: "port", in: 1...65535)
            host = host[..<colon]
        }
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        return .tcp(host: host.isEmpty ? "127.0.0.1" : String(host), port: port)
    }

    /// Reads an address as a cluster writes it: `host:port`, where an IPv6 address has no brackets.
    ///
    /// - Parameter node: The node that sent the address. An empty host means the host of this node.
    static func clusterAddress(_ text: Substring, of node: Address?) -> Address? {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]) else { return nil }
        let host = text[..<colon]
        if host.isEmpty, case .tcp(let same, _)? = node { return .tcp(host: same, port: port) }
        return host.isEmpty ? nil : .tcp(host: String(host), port: port)
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
