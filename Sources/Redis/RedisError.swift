/// Why a command failed: a stable code, and one sentence that says what to do.
package struct RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Code: String, Sendable {
        /// The text is not a valid Redis URL, or a file that the URL names cannot be used.
        case badURL
        /// The host's name does not resolve, nothing answers at the address, or what answers is not Redis.
        case unreachable
        /// The sentinels answer, but the primary that they name does not. A failover may be in progress.
        case noPrimary
        /// The connection ended before the reply. Redis may or may not have executed the command.
        case closed
        /// TLS failed, for example because the certificate is not trusted or names another host.
        case certificate
        /// No reply in time. Redis may or may not have executed the command. The connection has been closed.
        case timedOut
        case authentication, noPermission, wrongType, outOfMemory, noFunction, readOnly, loading, moved, ask, tryAgain
        case clusterDown, masterDown, noReplicas, misconfigured, busy, unblocked, tooManyClients
        /// The caller's task was cancelled. Redis may or may not have executed the command.
        case cancelled
        /// Any other error reply.
        case reply
    }

    package var code: Code
    package var message: String
    /// Whether a change of all partitions of a queue has reached some of them.
    package var isPartial = false

    /// The address in a MOVED reply: the node that serves the slot.
    private(set) var redirectTarget: Substring?

    package init(_ code: Code, _ message: String) { (self.code, self.message) = (code, message) }

    package var description: String { message }

    static let cancelled = RedisError(.cancelled, "the task that asked Redis was cancelled")
    /// The error of every call of a closed client. It is final: to send the command again is useless.
    package static let clientClosed = RedisError(.closed, "the Redis client was closed")

    /// Reads an error reply. The code follows from the first word, or from the text that follows a generic `ERR`.
    init(reply text: String) {
        let word = text.prefix { $0 != " " }
        let known = Self.replies[String(word)] ?? Self.generic.first { text.hasPrefix("ERR \($0.prefix)") }?.meaning
        let (code, advice) = known ?? (.reply, "")
        self = RedisError(code, advice.isEmpty ? "Redis says: \(text)" : "\(advice) (Redis says: \(text))")
        if code == .moved { redirectTarget = text.split(separator: " ").last }
    }

    /// Whether the server has certainly not executed the command, and the same command may succeed soon.
    package var isTemporaryRefusal: Bool {
        switch code {
        case .loading, .masterDown, .clusterDown, .readOnly, .tryAgain, .ask, .moved, .busy, .tooManyClients: true
        default: false
        }
    }

    /// Whether a retry after a while may succeed. The server may have executed the command already.
    package var isTransient: Bool {
        switch code {
        case .unreachable, .noPrimary, .closed, .timedOut, .unblocked, .noReplicas, .misconfigured, .outOfMemory: true
        default: isTemporaryRefusal
        }
    }

    /// This error as the reason why loading the bus' functions failed. Says what to do if the ACL forbids loading.
    var whileLoadingFunctions: RedisError {
        guard code == .noPermission else { return self }
        return RedisError(
            code,
            "Redis does not have this version's functions, and its user may not load them: run `haul load-functions`"
                + " as one who may, such as the role deploy (\(message))")
    }

    private static let replies: [String: (Code, String)] = [
        "NOAUTH": (.authentication, "Redis requires a password: put it into the URL, redis://:PASSWORD@host"),
        "WRONGPASS": (.authentication, "Redis refuses the user name or password: correct them in the URL"),
        "NOPERM": (.noPermission, "the Redis user lacks a right: extend its ACL"),
        "WRONGTYPE": (
            .wrongType, "a key of the queue holds another type: check it with TYPE, and rename or delete it"
        ),
        "OOM": (.outOfMemory, "Redis is out of memory: raise maxmemory or let the queue drain"),
        "READONLY": (.readOnly, "this Redis is a replica: name the primary, or its sentinels"),
        "LOADING": (.loading, "Redis is loading its data: it becomes available by itself"),
        "MOVED": (.moved, "the queue's slot is on another node of the cluster"),
        "ASK": (.ask, "the queue's slot is being moved"),
        "TRYAGAIN": (.tryAgain, "the queue's slot is being moved"),
        "CLUSTERDOWN": (.clusterDown, "the Redis Cluster is down: not all slots are served"),
        "MASTERDOWN": (.masterDown, "this replica has lost its primary"),
        "NOREPLICAS": (.noReplicas, "Redis has too few replicas to accept writes: see min-replicas-to-write"),
        "MISCONF": (.misconfigured, "Redis cannot save to its disk: read its log"),
        "BUSY": (.busy, "a script keeps Redis busy"),
        "UNBLOCKED": (.unblocked, ""),
        "DENIED": (.authentication, "this Redis accepts no clients from other hosts: give it a password, or bind it"),
    ]

    private static let generic: [(prefix: String, meaning: (Code, String))] = [
        ("max number of clients", (.tooManyClients, "Redis accepts no more connections: raise maxclients")),
        ("Function not found", (.noFunction, "")),
        ("AUTH", (.authentication, "Redis has no password: remove it from the URL")),
    ]
}
