package import HaulBus
package import HaulHTTPServer
package import HaulRedis
package import HaulStorage
package import Logging

/// The configuration of `haul web`.
package struct WebConfiguration: Sendable {
    package var redis: RedisURL
    /// The queues that are shown and controlled, in this order. No others can be reached.
    package var queues: [QueueName]
    package var addresses: [ListenAddress]
    /// nil if every visitor is an operator. This is allowed on loopback only.
    package var accounts: Accounts?
    /// The beginning of every path, like "/haul"; may be empty.
    package var prefix = ""
    /// Names by which browsers reach this server, in addition to localhost and IP addresses.
    package var hosts: [String] = []
    /// The queue that aria2's JSON-RPC at /jsonrpc reads and changes; nil: there is no such path.
    package var aria2: QueueName?
    /// Where the files of completed downloads are, by queue. Operators may save those files from the page.
    package var files: [QueueName: any SourceFolder] = [:]
    package var limits = ServerLimits()
    package var version = ""
    /// Whether the last address of X-Forwarded-For is the client's: a proxy adds it, and all clients come through it.
    package var trustsForwardedFor = false
    /// Gets a line for each sign-in, each change, and when Redis fails.
    package var log = Logger(label: "haul", factory: { _ in SwiftLogNoOpLogHandler() })

    package init(redis: RedisURL, queues: [QueueName], addresses: [ListenAddress]) {
        (self.redis, self.queues, self.addresses) = (redis, queues, addresses)
    }

    /// What is wrong with the configuration; nil if nothing is.
    package var problem: String? {
        if accounts == nil, let open = addresses.first(where: { !$0.isLoopback }) {
            return "others reach \(open): give --auth FILE, or listen on 127.0.0.1"
        }
        if queues.isEmpty { return "no queue is named" }
        if let aria2, !queues.contains(aria2) { return "--aria2 must name a queue of --queue, not \(aria2)" }
        guard prefix.isEmpty || Self.isPrefix(prefix) else {
            return "--prefix must begin with / and have only letters, digits and . _ - / in it, not \"\(prefix)\""
        }
        return nil
    }

    private static func isPrefix(_ text: String) -> Bool {
        text.hasPrefix("/") && !text.hasSuffix("/") && !text.contains("//")
            && text.utf8.allSatisfy {
                48...57 ~= $0 || 97...122 ~= $0 | 32 || "._-/".utf8.contains($0)
            }
    }
}
