/// How a connection introduces itself.
struct Login: Sendable {
    /// What CLIENT LIST shows.
    var name: String
    var user: String?
    var password: String?
    var database = 0
    var tls: RedisURL.TLSOptions?
    /// A replica is refused, as long as it is one.
    var mustBePrimary = false
    /// Ask which run of which server this is, and of what kind.
    var tracesServer = false

    init(_ url: RedisURL, name: String) {
        (self.name, user, password, database, tls) = (name, url.user, url.password, url.database, url.tls)
        if case .sentinel = url.kind { mustBePrimary = true }
    }

    /// To a sentinel of `url`.
    init(sentinelOf url: RedisURL, name: String) {
        (self.name, user, password, tls) = (name, url.sentinelUser, url.sentinelPassword, url.tls)
    }

    func tls(for server: RedisURL.Address) throws(RedisError) -> sending TLS? {
        guard let tls, case .tcp(let host, _) = server else { return nil }
        return try TLS(tls, host: host)
    }
}
