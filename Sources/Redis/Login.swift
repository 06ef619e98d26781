/// How a connection signs in: the credentials, and what the server must be.
struct Login: Sendable {
    /// The client name in CLIENT LIST.
    var name: String
    var user: String?
    var password: String?
    var database = 0
    var tls: RedisURL.TLSOptions?
    /// Whether to refuse a server that is a replica.
    var mustBePrimary = false
    /// Whether to ask INFO for the server's `run_id`, and whether the server is a node of a cluster.
    var tracesServer = false
    /// The program that should answer, for messages.
    var program = "redis-server"

    init(_ url: RedisURL, name: String) {
        (self.name, user, password, database, tls) = (name, url.user, url.password, url.database, url.tls)
        if case .sentinel = url.kind { mustBePrimary = true }
    }

    /// The login to a sentinel of `url`.
    init(sentinelOf url: RedisURL, name: String) {
        (self.name, user, password, tls) = (name, url.sentinelUser, url.sentinelPassword, url.tls)
        program = "redis-sentinel"
    }

    func tls(for server: RedisURL.Address) throws(RedisError) -> sending TLS? {
        guard let tls, case .tcp(let host, _) = server else { return nil }
        return try TLS(tls, host: host)
    }
}
