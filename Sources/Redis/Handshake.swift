/// The first commands on a connection, and what their replies mean.
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

    /// Who the connection is to the server, as far as an ACL lets it be known.
    /// - Throws: what forbids to use the connection.
    func read(_ replies: [RedisValue], label: String) throws(RedisError) -> ServerSide {
        var side = ServerSide()
        for (step, reply) in zip(steps, replies) {
            if case .error(let error) = reply {
                // Names are a comfort, signing in is not.
                if [.name, .info].contains(step), error.code == .noPermission { continue }
                throw error
            }
            switch step {
            case .role where reply.array?.first?.string != "master":
                // Sentinels name it before it knows.
                throw RedisError(.readOnly, "Redis at \(label) is not the primary yet")
            case .info:
                let facts = reply.facts
                side.run = facts["run_id"].map(String.init)
                side.isOfCluster = facts["redis_mode"] == "cluster"
            default: break
            }
        }
        return side
    }
}

/// A connection as the server knows it.
struct ServerSide: Sendable {
    /// Which run of which server it is, if that was asked for.
    var run: String?
    /// The server is a node of a cluster, as far as it was asked.
    var isOfCluster = false
}
