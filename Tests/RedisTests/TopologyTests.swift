import Foundation
import Glibc
import HaulTestSupport
import Testing

@testable import HaulRedis

@Suite struct TLSTests {
    private func server(_ certificates: Certificates, clients: Bool = false) async throws -> (RedisServer, Int) {
        let port = FreePort.next()
        let server = try await RedisServer([
            "--tls-port", "\(port)", "--bind", "127.0.0.1", "--tls-cert-file", certificates.file("server.pem"),
            "--tls-key-file", certificates.file("server.key"), "--tls-ca-cert-file", certificates.file("ca.pem"),
            "--tls-auth-clients", clients ? "yes" : "no",
        ])
        return (server, port)
    }

    private func ping(_ url: String, timeout: Duration = .seconds(15)) async -> RedisError? {
        do throws(RedisError) {
            let redis = Redis(try RedisURL(url), name: "test")
            let reply = try await redis.send(Command("PING"), timeout: timeout)
            return reply.string == "PONG" ? nil : RedisError(.reply, "\(reply)")
        } catch {
            return error
        }
    }

    @Test("a trusted server accepts large values, and other servers are refused with advice")
    func trust() async throws {
        let certificates = try await Certificates()
        let (server, port) = try await server(certificates)
        let ca = certificates.file("ca.pem")
        #expect(await ping("rediss://127.0.0.1:\(port)?ca=\(ca)") == nil)
        let untrusted = await ping("rediss://127.0.0.1:\(port)")
        #expect(
            untrusted?.code == .certificate && untrusted?.message.contains("?ca=FILE") == true, "\(untrusted as Any)")
        // The certificate is for another name.
        #expect(await ping("rediss://localhost:\(port)?ca=\(ca)")?.code == .certificate)
        #expect(await ping("rediss://127.0.0.1:\(port)?ca=/no/such")?.code == .badURL)
        let redis = Redis(try RedisURL("rediss://127.0.0.1:\(port)?ca=\(ca)"), name: "test")
        let value = [UInt8](repeating: 7, count: 3_000_000)
        try await redis.send(Command("SET", "k", value))
        #expect(try await redis.send(Command("GET", "k")).bytes == value)
        #expect(try await server.cli("STRLEN", "k") == "3000000")
    }

    @Test("a TLS connection to a server without TLS fails") func plain() async throws {
        let port = FreePort.next()
        let server = try await RedisServer(["--port", "\(port)", "--bind", "127.0.0.1"])
        let error = await ping("rediss://127.0.0.1:\(port)", timeout: .seconds(1))
        #expect(error != nil)
        withExtendedLifetime(server) {}
    }

    @Test("a client certificate is sent to a server that requires one") func client() async throws {
        let certificates = try await Certificates()
        let (server, port) = try await server(certificates, clients: true)
        let url = "rediss://127.0.0.1:\(port)?ca=\(certificates.file("ca.pem"))"
        #expect(await ping(url) != nil)
        let error = await ping(
            "\(url)&cert=\(certificates.file("client.pem"))&key=\(certificates.file("client.key"))")
        #expect(error == nil)
        withExtendedLifetime(server) {}
    }
}

@Suite struct FailoverTests {
    @Test("the client uses the primary that sentinels name, and its successor after a failover")
    func sentinels() async throws {
        let topology = try await RedisWithSentinels()
        let redis = Redis(try RedisURL(topology.url), name: "test")
        try await redis.send(Command("SET", "k", "1"))
        #expect(try await redis.send(Command("WAIT", 1, 5000)).int == 1)
        let old = try await topology.primary()
        old.signal(SIGKILL)
        try await eventually("the new primary", within: .seconds(30)) {
            (try? await redis.send(Command("SET", "k2", "2"), timeout: .seconds(1))) != nil
        }
        #expect(try await redis.send(Command("GET", "k")).string == "1")
        // The sentinel that is asked here may hear of the failover later than the one that the client has asked.
        try await eventually("the other primary", within: .seconds(30)) { try await topology.primary() !== old }
    }

    @Test("a sentinel that names a primary which is gone does not keep the others from being asked")
    func staleSentinel() async throws {
        let (server, port) = try await Self.server()
        let sentinels = [
            try await Sentinel(monitoring: FreePort.next()), try await Sentinel(monitoring: port),
        ]
        let redis = Redis(try RedisURL(sentinels.url), name: "test")
        try await eventually("the primary that the second sentinel names") {
            (try? await redis.send(Command("PING"), timeout: .seconds(1))) != nil
        }
        withExtendedLifetime((server, sentinels)) {}
    }

    private static func server() async throws -> (RedisServer, port: Int) {
        let port = FreePort.next()
        return (try await RedisServer(["--bind", "127.0.0.1", "--port", "\(port)"]), port)
    }

    @Test("a sentinel that is cut off together with an old primary is not believed, wherever the URL names it")
    func cutOff() async throws {
        let (old, new) = (try await Self.server(), try await Self.server())
        try await old.0.cli("SET", "name", "old")
        try await new.0.cli("SET", "name", "new")
        let sentinels = [
            try await Sentinel(monitoring: old.port), try await Sentinel(monitoring: new.port, epoch: 1),
            try await Sentinel(monitoring: new.port, epoch: 1),
        ]
        for first in sentinels.indices {
            let order = Array(sentinels[first...] + sentinels[..<first])
            let redis = Redis(try RedisURL(order.url), name: "test")
            #expect(try await redis.send(Command("GET", "name")).string == "new", "sentinel \(first) is the first")
        }
    }

    @Test("a subscription follows a failover from a primary that goes on") func subscription() async throws {
        let (old, new) = (try await Self.server(), try await Self.server())
        var sentinels: [Sentinel] = []
        for _ in 0..<3 { sentinels.append(try await Sentinel(monitoring: old.port)) }
        let messages = Subscription(try RedisURL(sentinels.url), name: "t", channels: ["c"]).makeAsyncIterator()
        guard case .subscribed? = await messages.next(until: .now + .seconds(20)) else {
            Issue.record("not subscribed")
            return
        }
        for sentinel in sentinels { try await sentinel.monitor(new.port) }
        try await eventually("the subscription at the new primary", within: .seconds(20)) {
            try await new.0.cli("PUBLISH", "c", "hello") == "1"
        }
        try await eventually("the other one to be left") {
            try await old.0.cli("CLIENT", "LIST", "TYPE", "pubsub").isEmpty
        }
    }

    @Test("a node that does not belong to the cluster keeps no client from the others") func strayNode() async throws {
        let cluster = try await RedisCluster()
        let port = FreePort.next()
        let stray = try await RedisServer([
            "--bind", "127.0.0.1", "--port", "\(port)", "--cluster-enabled", "yes", "--cluster-port",
            "\(FreePort.next())",
        ])
        let nodes = [port] + cluster.ports
        let url = "redis+cluster://" + nodes.map { "127.0.0.1:\($0)" }.joined(separator: ",")
        let redis = Redis(try RedisURL(url), name: "test")
        try await redis.send(Command("SET", "k", "1"))
        #expect(try await stray.errors("CLUSTERDOWN") == 1)
    }

    @Test("the client leaves a primary that was replaced while it hung") func demoted() async throws {
        let topology = try await RedisWithSentinels()
        let redis = Redis(try RedisURL(topology.url), name: "test")
        try await redis.send(Command("SET", "k", "1"))
        // The primary hangs and is replaced. When it resumes, it still considers itself the primary.
        let old = try await topology.primary()
        old.signal(SIGSTOP)
        try await eventually("a failover", within: .seconds(30)) { try await topology.primary() !== old }
        try await eventually("the new primary", within: .seconds(30)) {
            (try? await redis.send(Command("SET", "new", "1"), timeout: .seconds(1))) != nil
        }
        old.signal(SIGCONT)
        #expect(try await (topology.primary()).cli("GET", "new") == "1")
    }

    @Test("each queue's commands reach the node that serves its slot, also while the slot moves")
    func cluster() async throws {
        let cluster = try await RedisCluster()
        let library = Library(
            name: "test",
            body: """
                redis.register_function(LIBRARY .. '_count', function(keys)
                  redis.call('GET', keys[2])
                  return redis.call('INCR', keys[1])
                end)
                """)
        let count = library.function("count")
        // The hash tags of three queues, each of which is on another node.
        for tag in ["{a}", "{b}", "{c}"] {
            for url in [cluster.url, "redis://127.0.0.1:\(cluster.ports[0])"] {
                let redis = Redis(try RedisURL(url), name: "test")
                try await redis.run(count, keys: ["\(tag)n", "\(tag)m"], arguments: [])
            }
            // A push that waits for replicas. Any node answers WAIT.
            let waiter = Redis(try RedisURL(cluster.url), name: "test")
            let calls = [Command("LPUSH", "\(tag)list", "1"), Command("WAIT", 1, 10)]
            let replies = try await waiter.pipeline(calls.map { .command($0) }, blocking: .milliseconds(10))
            #expect(replies.map(\.int) == [1, 0], "\(tag)")
        }
        let redis = Redis(try RedisURL(cluster.url), name: "test")
        let slot = try await cluster.slot(of: "{a}n")
        let done = Shared(0)
        let failed = Shared(0)
        let isEnough = Shared(false)
        let counting = Task {
            while !isEnough.value {
                do {
                    try await redis.run(count, keys: ["{a}n", "{a}m"], arguments: [], timeout: .seconds(10))
                    done.change { $0 += 1 }
                } catch {
                    failed.change { $0 += 1 }
                }
            }
        }
        try await eventually { done.value > 20 }
        try await cluster.migrate(slot)
        let before = done.value
        try await eventually { done.value > before + 20 }
        isEnough.value = true
        await counting.value
        #expect(failed.value == 0)
        // The loop at the start counted `{a}n` twice.
        #expect(try await redis.send(Command("GET", "{a}n")).string == String(done.value + 2))
    }

    @Test("nodes that redirect to each other are asked more and more rarely, until they agree")
    func undecided() async throws {
        let cluster = try await RedisCluster()
        let slot = try await cluster.slot(of: "{a}n")
        let number = try await cluster.owner(of: slot)
        let (owner, other) = (cluster.servers[number], cluster.servers[(number + 1) % 3])
        let redis = Redis(try RedisURL(cluster.url), name: "test")
        try await redis.send(Command("GET", "{a}n"))
        try await owner.cli("CLUSTER", "SETSLOT", "\(slot)", "NODE", try await other.cli("CLUSTER", "MYID"))
        await #expect(throws: RedisError.self) {
            try await redis.send(Command("GET", "{a}n"), timeout: .seconds(2))
        }
        #expect(try await owner.errors("MOVED") + other.errors("MOVED") < 100)
        try await owner.cli("CLUSTER", "SETSLOT", "\(slot)", "NODE", try await owner.cli("CLUSTER", "MYID"))
        try await redis.send(Command("GET", "{a}n"), timeout: .seconds(10))
    }

    @Test("a cancelled caller follows a moved slot if the client's replies are `.owed`") func cancelled() async throws {
        let cluster = try await RedisCluster()
        let redis = Redis(try RedisURL(cluster.url), name: "test", replies: .owed)
        try await redis.send(Command("SET", "{a}n", "1"))
        try await cluster.migrate(cluster.slot(of: "{a}n"), isInUse: false)
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await redis.send(Command("INCR", "{a}n")).int
        }
        task.cancel()
        #expect(try await task.value == 2)
    }
}
