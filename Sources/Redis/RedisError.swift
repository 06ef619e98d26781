/// Why a command was not answered as hoped: a stable code, and one sentence that says what to do.
package struct RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Code: String, Sendable {
        /// The text is no Redis URL.
        case badURL
        /// Nobody answers at the address, or something that is no Redis, or its name does not resolve.
        case unreachable
        /// Sentinels answer, but not the server that they call the primary: a failover may be under way.
        case noPrimary
        /// The connection ended before the reply came: the command may or may not have been done.
        case closed
        /// TLS does not come about: the certificate is not trusted, or not the server's.
        case certificate
        /// No reply in time: the command may or may not have been done. The connection has been dropped.
        case timedOut
        case authentication, noPermission, wrongType, outOfMemory, noFunction, readOnly, loading, moved, ask, tryAgain
        case clusterDown, masterDown, noReplicas, misconfigured, busy, unblocked, tooManyClients
        /// The caller's task was cancelled: what it had sent may or may not have been done.
        case cancelled
        /// Any other error reply.
        case reply
    }

    package var code: Code
    package var message: String

    /// Where a MOVED reply says that the slot is.
    private(set) var place: Substring?

    package init(_ code: Code, _ message: String) { (self.code, self.message) = (code, message) }

    package var description: String { message }

    static let cancelled = RedisError(.cancelled, "the task that asked Redis was cancelled")
    /// What every call gets once its client was closed: no later one will be answered.
    package static let clientClosed = RedisError(.closed, "the Redis client was closed")

    /// An error reply: its first word is the code, but for some that only say ERR.
    init(reply text: String) {
        let word = text.prefix { $0 != " " }
        let known = Self.replies[String(word)] ?? Self.generic.first { text.hasPrefix("ERR \($0.beginning)") }?.meaning
        let (code, advice) = known ?? (.reply, "")
        self = RedisError(code, advice.isEmpty ? "Redis says: \(text)" : "\(advice) (Redis says: \(text))")
        if code == .moved { place = text.split(separator: " ").last }
    }

    /// Whether the server certainly did not execute the command, and the same command may succeed in a moment.
    package var isPassing: Bool {
        switch code {
        case .loading, .masterDown, .clusterDown, .readOnly, .tryAgain, .ask, .moved, .busy, .tooManyClients: true
        default: false
        }
    }

    /// Whether waiting and asking again makes sense, although an earlier try may have been executed.
    package var isTransient: Bool {
        switch code {
        case .unreachable, .noPrimary, .closed, .timedOut, .unblocked, .noReplicas, .misconfigured, .outOfMemory: true
        default: isPassing
        }
    }

    /// What a refusal to load the bus' functions means.
    var whileLoadingFunctions: RedisError {
        guard code == .noPermission else { return self }
        return RedisError(
            code,
            "Redis does not have this version's functions, and its user may not load them: run `haul load-functions`"
                + " as one who may, such as the role deploy (\(message))")
    }

    private static let replies: [String: (Code, String)] = [
        "NOAUTH": (.authentication, "Redis wants a password: put it into the URL, redis://:PASSWORD@host"),
        "WRONGPASS": (.authentication, "Redis refuses the user name or password: correct them in the URL"),
        "NOPERM": (.noPermission, "the Redis user lacks a right: extend its ACL"),
        "WRONGTYPE": (
            .wrongType, "a key of the queue holds another type: look at it with TYPE, and rename or delete it"
        ),
        "OOM": (.outOfMemory, "Redis is out of memory: raise maxmemory or let the queue drain"),
        "READONLY": (.readOnly, "this Redis is a replica: name the primary, or its sentinels"),
        "LOADING": (.loading, "Redis is loading its data: it will be back by itself"),
        "MOVED": (.moved, "the queue's slot lives on another node of the cluster"),
        "ASK": (.ask, "the queue's slot is being moved"),
        "TRYAGAIN": (.tryAgain, "the queue's slot is being moved"),
        "CLUSTERDOWN": (.clusterDown, "the Redis Cluster is down: not all slots are served"),
        "MASTERDOWN": (.masterDown, "this replica has lost its primary"),
        "NOREPLICAS": (.noReplicas, "Redis has too few replicas to accept writes: see min-replicas-to-write"),
        "MISCONF": (.misconfigured, "Redis cannot save to its disk: look at its log"),
        "BUSY": (.busy, "a script keeps Redis busy"),
        "UNBLOCKED": (.unblocked, ""),
        "DENIED": (.authentication, "this Redis takes no clients from other hosts: give it a password, or bind it"),
    ]

    private static let generic: [(beginning: String, meaning: (Code, String))] = [
        ("max number of clients", (.tooManyClients, "Redis takes no more connections: raise maxclients")),
        ("Function not found", (.noFunction, "")),
        ("AUTH", (.authentication, "Redis has no password: take it out of the URL")),
    ]
}
