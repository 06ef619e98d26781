/// The first commands on a connection, and the check of their replies.
struct Handshake {
    private enum Step { case authenticate, select, role, name, info }

    private let steps: [Step]
    let commands: [Command]

    init(_ login: Login) {
        var pairs: [(Step, Command)] = []
        if let password = login.password {
            pairs.append((.authenticate, Command(arguments: ["AUTH"] + (login.user.map { [$0] } ?? []) + [password])))
        }
        if login.database != 0 { pairs.append((.select, Command("SELECT", login.database))) }
        if login.mustBePrimary { pairs.append((.role, Command("ROLE"))) }
        pairs.append((.name, Command("CLIENT", "SETNAME", login.name)))
        if login.tracesServer { pairs.append((.info, Command("INFO", "server"))) }
        (steps, commands) = (pairs.map(\.0), pairs.map(\.1))
    }

    /// Returns what the replies say about the server. A value that an ACL hides keeps its default.
    /// - Throws: The error reply of a step that must succeed, or `.readOnly` if a required primary is a replica.
    func read(_ replies: [RedisValue], label: String) throws(RedisError) -> ServerInfo {
        var server = ServerInfo()
        for (step, reply) in zip(steps, replies) {
            if case .error(let error) = reply {
                // The connection works without a name and without INFO. An ACL may forbid both.
                if [.name, .info].contains(step), error.code == .noPermission { continue }
                throw error
            }
            switch step {
            case .role where reply.array?.first?.string != "master":
                // During a failover, sentinels name the new primary before the new primary itself knows its role.
                throw RedisError(.readOnly, "Redis at \(label) is not the primary yet")
            case .info:
                let info = reply.infoFields
                server.run = info["run_id"].map(String.init)
                server.isCluster = info["redis_mode"] == "cluster"
            default: break
            }
        }
        return server
    }
}

/// What the handshake finds out about the server.
struct ServerInfo: Sendable {
    /// The server's `run_id`, which changes with each start of redis-server. nil unless the login `tracesServer`.
    var run: String?
    /// Whether the server is a node of a cluster. false unless the login `tracesServer`.
    var isCluster = false
}
