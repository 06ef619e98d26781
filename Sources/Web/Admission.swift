import HaulHTTPServer

/// Decides whether a request is allowed, before anything is done: the rules against other sites' pages, and signing in.
struct Admission: Sendable {
    /// Names by which browsers reach this server, in addition to localhost and IP addresses.
    let hosts: Set<String>
    let accounts: Accounts?

    /// Prevents DNS rebinding. Another site can let its own name lead to our address, and then its page may read what
    /// we answer. This does not work with an IP address, or with a name that is configured here.
    func refusal(ofHost request: ServerRequest) -> APIError? {
        guard let authority = request["host"] else { return nil }
        guard let host = Self.host(of: authority)?.lowercased() else {
            return APIError(421, .unknownHost, "the Host field is not a name or an address with an optional port")
        }
        if host == "localhost" || Self.isAddress(host) || hosts.contains(host) { return nil }
        return APIError(
            421, .unknownHost, "this server is not known as \(host): haul web --host \(host) makes it so")
    }

    /// Prevents cross-site requests: what a browser sends for another site's page cannot change or read anything.
    func refusal(ofOrigin request: ServerRequest) -> APIError? {
        let isChange = request.method != "GET" && request.method != "HEAD"
        if let site = request["sec-fetch-site"], site != "same-origin", isChange || site != "none" {
            return APIError(
                403, .foreignOrigin, "the request comes from another site's page (Sec-Fetch-Site: \(site))")
        }
        guard isChange else { return nil }
        if let origin = request["origin"] {
            guard let authority = request["host"], let own = Self.authority(ofOrigin: origin),
                own == authority.lowercased() || Self.host(of: own).map(hosts.contains) ?? false
            else { return APIError(403, .foreignOrigin, "the request comes from another origin: \(origin)") }
        }
        let type = (request["content-type"] ?? "").prefix { $0 != ";" }.lowercased()
        guard type == "application/json" else {
            return APIError(415, .contentType, "a change is sent as application/json")
        }
        return nil
    }

    /// Who sends the request.
    ///
    /// - Throws: `sign_in` or `busy`.
    func caller(_ request: ServerRequest, _ audit: AuditLog) async throws(APIError) -> Caller {
        try await caller(request["authorization"], from: request.client, audit)
    }

    /// The same for the text of an Authorization field.
    func caller(
        _ authorization: String?, from client: ClientAddress, _ audit: AuditLog
    ) async throws(APIError) -> Caller {
        guard let accounts else { return Caller(visitor: Visitor(name: nil, role: .operator), client: client) }
        switch await accounts.visitor(authorization, from: client) {
        case .visitor(let visitor, let proof):
            let caller = Caller(visitor: visitor, client: client)
            if proof == .checked { audit.signedIn(caller) } else if proof == .token { audit.usedToken(caller) }
            return caller
        case .none: throw APIError(401, .signIn, "sign in with a name and password, or a bearer token")
        case .wrong(let name):
            audit.signInFailed(name, from: client, "the name, the password or the token is wrong")
            throw APIError(401, .signIn, "the name, the password or the token is wrong")
        case .busy(let name):
            audit.signInFailed(name, from: client, "too many are signing in")
            throw APIError(429, .busy, "too many are signing in: try again in some seconds")
        }
    }

    /// `host[:port]` of `scheme://host[:port]`, in lower case.
    private static func authority(ofOrigin origin: String) -> String? {
        let parts = origin.lowercased().split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "http:" || parts[0] == "https:", parts[1].isEmpty else { return nil }
        return String(parts[2])
    }

    /// The host of `host[:port]`, without the brackets of an IPv6 address; nil for any other text.
    static func host(of authority: String) -> String? {
        let isBracketed = authority.hasPrefix("[")
        let host = authority.dropFirst(isBracketed ? 1 : 0).prefix { $0 != (isBracketed ? "]" : ":") }
        let rest = authority[host.endIndex...].dropFirst(isBracketed ? 1 : 0)
        guard !isBracketed || host.endIndex < authority.endIndex else { return nil }
        guard rest.isEmpty || rest.first == ":" && rest.dropFirst().utf8.allSatisfy({ 48...57 ~= $0 }) else {
            return nil
        }
        return String(host)
    }

    /// Whether a host is an IP address. No host name has this form: browsers take a host whose last label is a number
    /// for an IPv4 address.
    private static func isAddress(_ host: String) -> Bool {
        if host.contains(":") {
            return host.utf8.allSatisfy { 48...57 ~= $0 || 97...102 ~= $0 || $0 == 58 || $0 == 46 }
        }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
    }
}
