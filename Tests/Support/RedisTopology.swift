import Foundation
import Glibc

/// Ports on loopback on which no process listens.
package enum FreePort {
    private static let given = Shared<Set<Int>>([])

    /// Never returns the same port twice: the caller listens on it only later.
    package static func next() -> Int {
        while true {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            defer { close(descriptor) }
            // Below the range from which the kernel takes ephemeral ports.
            let port = Int.random(in: 10_000..<32_000)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(port).bigEndian
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            let status = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            if status == 0, given.change({ $0.insert(port).inserted }) { return port }
        }
    }
}

/// One sentinel that calls a server `main`. It knows no others, as if it were cut off from them.
package final class Sentinel: Sendable {
    package let port = FreePort.next()
    private let process: ChildProcess
    private let directory = TemporaryDirectory()

    /// - Parameter epoch: The number of its configuration, which grows with each failover.
    package init(monitoring primary: Int, epoch: Int = 0) async throws {
        let file = directory.file("sentinel.conf")
        let settings = """
            port \(port)
            bind 127.0.0.1
            dir \(directory.path)
            sentinel monitor main 127.0.0.1 \(primary) 2
            sentinel config-epoch main \(epoch)
            """
        try settings.write(toFile: file, atomically: true, encoding: .utf8)
        process = try ChildProcess("redis-server", [file, "--sentinel"])
        try await eventually("the sentinel") { try await self.ask("PING").contains("PONG") }
    }

    deinit { process.kill(SIGKILL) }

    /// Names another server from now on.
    package func monitor(_ primary: Int) async throws {
        _ = try await ask("SENTINEL", "REMOVE", "main")
        _ = try await ask("SENTINEL", "MONITOR", "main", "127.0.0.1", "\(primary)", "2")
    }

    private func ask(_ words: String...) async throws -> String {
        let cli = try ChildProcess("redis-cli", ["-p", "\(port)"] + words)
        _ = try await cli.wait()
        return cli.standardOutput
    }
}

extension [Sentinel] {
    /// The URL of the primary that they call `main`, in their order.
    package var url: String { url(user: "") }

    /// - Parameter user: `name:password@`, or empty.
    package func url(user: String) -> String {
        "redis+sentinel://\(user)" + map { "127.0.0.1:\($0.port)" }.joined(separator: ",") + "/main"
    }
}

/// A primary with a replica, and three sentinels that monitor them.
package final class RedisWithSentinels: Sendable {
    package let servers: [RedisServer]
    private let ports: [Int]
    private let sentinels: [ChildProcess]
    private let sentinelPorts: [Int]
    private let directory = TemporaryDirectory()

    package init() async throws {
        let ports = [FreePort.next(), FreePort.next()]
        let own = ["--bind", "127.0.0.1", "--appendonly", "yes", "--repl-diskless-sync-delay", "0"]
        let primary = try await RedisServer(own + ["--port", "\(ports[0])"])
        let replica = try await RedisServer(own + ["--port", "\(ports[1])", "--replicaof", "127.0.0.1 \(ports[0])"])
        (servers, self.ports) = ([primary, replica], ports)
        try await eventually("the replica to follow") {
            try await replica.cli("INFO", "replication").contains("master_link_status:up")
        }
        var sentinels: [ChildProcess] = []
        var sentinelPorts: [Int] = []
        for number in 0..<3 {
            let port = FreePort.next()
            let settings = """
                port \(port)
                bind 127.0.0.1
                dir \(directory.path)
                sentinel monitor main 127.0.0.1 \(ports[0]) 2
                sentinel down-after-milliseconds main 2000
                sentinel failover-timeout main 3000
                """
            let file = directory.file("sentinel\(number).conf")
            try settings.write(toFile: file, atomically: true, encoding: .utf8)
            sentinels.append(try ChildProcess("redis-server", [file, "--sentinel"]))
            sentinelPorts.append(port)
        }
        (self.sentinels, self.sentinelPorts) = (sentinels, sentinelPorts)
        try await eventually("the sentinels to know each other and the replica") {
            for port in sentinelPorts {
                let text = try await ask(port, "SENTINEL", "MASTER", "main")
                guard Self.field("num-other-sentinels", text) == "2", Self.field("num-slaves", text) == "1" else {
                    return false
                }
            }
            return true
        }
    }

    deinit { for sentinel in sentinels { sentinel.kill(SIGKILL) } }

    package var url: String {
        "redis+sentinel://" + sentinelPorts.map { "127.0.0.1:\($0)" }.joined(separator: ",") + "/main"
    }

    /// The server that the sentinels report as the primary.
    package func primary() async throws -> RedisServer {
        let text = try await ask(sentinelPorts[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
        return servers[text.contains(String(ports[1])) ? 1 : 0]
    }

    private func ask(_ port: Int, _ words: String...) async throws -> String {
        let cli = try ChildProcess("redis-cli", ["-p", "\(port)"] + words)
        _ = try await cli.wait()
        return cli.standardOutput
    }

    private static func field(_ name: String, _ text: String) -> String? {
        let lines = text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        return lines.firstIndex(of: name).map { lines[$0 + 1] }
    }
}

/// Three primaries that share all slots.
package final class RedisCluster: Sendable {
    package let servers: [RedisServer]
    package let ports: [Int]

    package init() async throws {
        var servers: [RedisServer] = []
        var ports: [Int] = []
        for _ in 0..<3 {
            let (port, bus) = (FreePort.next(), FreePort.next())
            servers.append(
                try await RedisServer([
                    "--bind", "127.0.0.1", "--port", "\(port)", "--cluster-enabled", "yes", "--cluster-port", "\(bus)",
                    "--cluster-node-timeout", "2000", "--appendonly", "yes",
                ]))
            ports.append(port)
        }
        (self.servers, self.ports) = (servers, ports)
        let nodes = ports.map { "127.0.0.1:\($0)" }
        let create = try ChildProcess("redis-cli", ["--cluster", "create"] + nodes + ["--cluster-yes"])
        guard try await create.wait(within: .seconds(30)) == 0 else {
            throw ChildProcess.Missing(description: "the cluster was not made: \(create.standardOutput)")
        }
        try await eventually("the cluster to be up") {
            for server in servers {
                guard try await server.cli("CLUSTER", "INFO").contains("cluster_state:ok") else { return false }
            }
            return true
        }
    }

    package var url: String {
        "redis+cluster://" + ports.map { "127.0.0.1:\($0)" }.joined(separator: ",")
    }

    package func slot(of key: String) async throws -> Int {
        Int(try await servers[0].cli("CLUSTER", "KEYSLOT", key)) ?? -1
    }

    /// The index of the server that serves `slot`. -1 if none does.
    package func owner(of slot: Int) async throws -> Int {
        for (number, server) in servers.enumerated() {
            let own =
                try await server.cli("CLUSTER", "NODES").split(separator: "\n").first { $0.contains("myself") } ?? ""
            for range in own.split(separator: " ").dropFirst(8) {
                let bounds = range.split(separator: "-").compactMap { Int($0) }
                if let first = bounds.first, first <= slot, slot <= bounds.last! { return number }
            }
        }
        return -1
    }

    /// Moves a slot with its keys to another server, as `redis-cli --cluster reshard` does.
    ///
    /// - Parameter isInUse: Whether to move the keys only after a client has been redirected because of the move.
    package func migrate(_ slot: Int, isInUse: Bool = true) async throws {
        let from = try await owner(of: slot)
        let to = (from + 1) % servers.count
        let (source, target) = (servers[from], servers[to])
        let sourceID = try await source.cli("CLUSTER", "MYID")
        let targetID = try await target.cli("CLUSTER", "MYID")
        try await setSlot(slot, "IMPORTING", sourceID, on: target)
        try await setSlot(slot, "MIGRATING", targetID, on: source)
        if isInUse {
            try await eventually("a client to be redirected by the slot's move", every: .milliseconds(20)) {
                try await source.errors("ASK") + source.errors("TRYAGAIN") > 0
            }
        }
        while true {
            let keys = try await source.cli("CLUSTER", "GETKEYSINSLOT", "\(slot)", "100").split(separator: "\n").map(
                String.init)
            if keys.isEmpty { break }
            for key in keys {
                try await source.cli("MIGRATE", "127.0.0.1", "\(ports[to])", key, "0", "5000")
            }
        }
        for server in [target, source, servers[(from + 2) % servers.count]] {
            try await setSlot(slot, "NODE", targetID, on: server)
        }
    }

    private func setSlot(_ slot: Int, _ state: String, _ node: String, on server: RedisServer) async throws {
        let reply = try await server.cli("CLUSTER", "SETSLOT", "\(slot)", state, node)
        guard reply == "OK" else { throw ChildProcess.Missing(description: "SETSLOT \(state): \(reply)") }
    }
}
