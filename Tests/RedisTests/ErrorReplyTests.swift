import Glibc
import HaulTestSupport
import Testing

@testable import HaulRedis

/// How the client classifies Redis' error replies, and that it waits while an error is temporary.
@Suite struct ErrorReplyTests {
    /// How an error reply is classified. `isTemporaryRefusal`: the command was certainly not executed, and may succeed
    /// in a moment.
    /// `returns`: it makes sense to send the command again later.
    struct Meaning: Sendable {
        let text: String
        let code: RedisError.Code
        var isTemporaryRefusal = false
        var returns = false
    }

    static let meanings: [Meaning] = [
        Meaning(
            text: "READONLY You can't write against a read only replica.", code: .readOnly, isTemporaryRefusal: true),
        Meaning(text: "LOADING Redis is loading the dataset in memory", code: .loading, isTemporaryRefusal: true),
        Meaning(text: "MASTERDOWN Link with MASTER is down", code: .masterDown, isTemporaryRefusal: true),
        Meaning(text: "CLUSTERDOWN Hash slot not served", code: .clusterDown, isTemporaryRefusal: true),
        Meaning(text: "MOVED 3999 127.0.0.1:6381", code: .moved, isTemporaryRefusal: true),
        Meaning(text: "ASK 3999 127.0.0.1:6381", code: .ask, isTemporaryRefusal: true),
        Meaning(
            text: "TRYAGAIN Multiple keys request during rehashing of slot", code: .tryAgain, isTemporaryRefusal: true),
        Meaning(text: "BUSY Redis is busy running a script.", code: .busy, isTemporaryRefusal: true),
        Meaning(text: "ERR max number of clients reached", code: .tooManyClients, isTemporaryRefusal: true),
        Meaning(text: "UNBLOCKED client unblocked via CLIENT UNBLOCK", code: .unblocked, returns: true),
        Meaning(text: "NOREPLICAS Not enough good replicas to write.", code: .noReplicas, returns: true),
        Meaning(text: "MISCONF Errors writing to the AOF file", code: .misconfigured, returns: true),
        Meaning(text: "OOM command not allowed when used memory > 'maxmemory'.", code: .outOfMemory, returns: true),
        Meaning(text: "NOAUTH Authentication required.", code: .authentication),
        Meaning(text: "WRONGPASS invalid username-password pair", code: .authentication),
        Meaning(text: "ERR AUTH <password> called without any password", code: .authentication),
        Meaning(text: "DENIED Redis is running in protected mode", code: .authentication),
        Meaning(text: "NOPERM this user has no permissions", code: .noPermission),
        Meaning(text: "ERR Function not found", code: .noFunction),
        Meaning(text: "WRONGTYPE Operation against a key", code: .wrongType),
        Meaning(text: "NOPROTO unsupported protocol version", code: .reply),
        Meaning(text: "CROSSSLOT Keys in request don't hash to the same slot", code: .reply),
        Meaning(text: "ERR unknown command", code: .reply),
        Meaning(text: "", code: .reply),
    ]

    @Test("each error reply has its code, and the message quotes Redis", arguments: meanings)
    func classification(_ meaning: Meaning) {
        let error = RedisError(reply: meaning.text)
        #expect(error.code == meaning.code)
        #expect(error.isTemporaryRefusal == meaning.isTemporaryRefusal)
        #expect(error.isTransient == (meaning.isTemporaryRefusal || meaning.returns))
        #expect(error.message.hasSuffix("Redis says: \(meaning.text)") || error.message.hasSuffix("\(meaning.text))"))
        #expect((error.redirectTarget == nil) == (meaning.code != .moved))
    }

    // MARK: Errors that are thrown at once

    private func code(_ body: () async throws -> Void) async -> RedisError.Code? {
        do { try await body() } catch { return (error as? RedisError)?.code }
        return nil
    }

    /// Sends a small write with a new client of `server`. Returns the code of the error, if there is one.
    private func write(to server: RedisServer, _ credentials: String = "") async throws -> RedisError.Code? {
        let redis = Redis(try RedisURL(server.url + credentials), name: "t")
        return await code { try await redis.send(Command("SET", "k", "v")) }
    }

    @Test("a missing, a wrong and a superfluous password are authentication errors") func signingIn() async throws {
        let server = try await RedisServer(["--requirepass", "secret"])
        #expect(try await write(to: server) == .authentication)
        #expect(try await write(to: server, "?password=wrong") == .authentication)
        #expect(try await write(to: server, "?user=nobody&password=secret") == .authentication)
        #expect(try await write(to: server, "?password=secret") == nil)
        #expect(try await write(to: try await RedisServer(), "?password=secret") == .authentication)
    }

    @Test("NOPERM and WRONGTYPE have codes of their own") func rights() async throws {
        let server = try await RedisServer()
        try await server.cli("ACL", "SETUSER", "poor", "on", ">pw", "~k", "+get", "+client")
        #expect(try await write(to: server, "?user=poor&password=pw") == .noPermission)
        try await server.cli("LPUSH", "list", "x")
        let redis = Redis(try RedisURL(server.url), name: "t")
        #expect(await code { try await redis.send(Command("GET", "list")) } == .wrongType)
    }

    @Test("UNBLOCKED ends a blocking command, and the command pipelined behind it is executed")
    func unblocked() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        let id = try #require(try await redis.send(Command("CLIENT", "ID")).int)
        async let replies = redis.pipeline(
            [.command(Command("BLPOP", "none", "60")), .command(Command("ECHO", "behind"))], blocking: .seconds(60))
        try await eventually { try await server.statistic("blocked_clients") == 1 }
        try await server.cli("CLIENT", "UNBLOCK", "\(id)", "ERROR")
        guard case .error(let error) = try await replies[0] else { return #expect(Bool(false), "no error") }
        #expect(error.code == .unblocked)
        #expect(try await replies[1].string == "behind")
    }

    @Test("NOREPLICAS, MISCONF and OOM are thrown as long as their cause lasts") func refused() async throws {
        let server = try await RedisServer(["--save", "3600 1", "--dbfilename", "d.rdb"])
        let redis = Redis(try RedisURL(server.url), name: "t")
        let write = { await code { try await redis.send(Command("SET", "k", "v")) } }
        try await server.cli("CONFIG", "SET", "min-replicas-to-write", "1")
        #expect(await write() == .noReplicas)
        try await server.cli("CONFIG", "SET", "min-replicas-to-write", "0")
        #expect(await write() == nil)
        try await server.breakSaving("d.rdb")
        #expect(await write() == .misconfigured)
        try await server.mendSaving("d.rdb")
        #expect(await write() == nil)
        try await server.cli("CONFIG", "SET", "maxmemory", "1")
        #expect(await write() == .outOfMemory)
        try await server.cli("CONFIG", "SET", "maxmemory", "0")
        #expect(await write() == nil)
    }

    // MARK: Errors that are waited out

    /// Makes a call while `server` refuses it. Checks that the call waits, that it does not retry too often, and that
    /// it succeeds once `end` has removed the cause.
    private func expectWait(
        _ redis: Redis, on server: RedisServer, for word: String, command: Command = Command("SET", "k", "v"),
        ending end: () async throws -> Void
    ) async throws {
        let start = ContinuousClock.now
        async let waiting = code { try await redis.send(command, timeout: .seconds(30)) }
        try await eventually("three replies with \(word)") { try await server.errors(word) >= 3 }
        try await end()
        #expect(await waiting == nil)
        let seconds = Int((ContinuousClock.now - start).components.seconds) + 1
        // The client starts with a few retries in quick succession, and slows down to about two a second.
        #expect(try await server.errors(word) <= 20 + 5 * seconds)
    }

    @Test("BUSY is waited out until the script ends") func busy() async throws {
        let server = try await RedisServer(["--busy-reply-threshold", "10"])
        let redis = Redis(try RedisURL(server.url), name: "t")
        try await redis.connect()
        let script = try ChildProcess("redis-cli", ["-s", server.socket, "EVAL", "while true do end", "0"])
        // Redis now executes only SCRIPT KILL.
        try await eventually { try await server.cli("PING").hasPrefix("BUSY") }
        try await eventually("the error to be thrown") {
            await code { try await redis.send(Command("PING"), timeout: .milliseconds(500)) } == .busy
        }
        let call = Task { await code { try await redis.send(Command("SET", "k", "v"), timeout: .seconds(30)) } }
        try await eventually { try await server.cli("SCRIPT", "KILL") == "OK" }
        #expect(await call.value == nil)
        _ = try await script.wait()
    }

    @Test("LOADING is waited out until the data is loaded") func loading() async throws {
        let server = try await RedisServer(RedisServer.slowLoading)
        let redis = Redis(try RedisURL(server.url), name: "t")
        try await server.beginLoading()
        try await expectWait(redis, on: server, for: "LOADING") { try await server.endLoading() }
        #expect(try await server.cli("DBSIZE") == "15001")
    }

    @Test(
        "READONLY and MASTERDOWN are waited out until the replica is the primary",
        arguments: ["READONLY", "MASTERDOWN"])
    func replica(_ word: String) async throws {
        let server = try await RedisServer(["--replica-serve-stale-data", word == "READONLY" ? "yes" : "no"])
        let redis = Redis(try RedisURL(server.url), name: "t")
        try await server.cli("REPLICAOF", "127.0.0.1", "\(FreePort.next())")
        // A replica refuses a write with READONLY. If it must not serve stale data, it refuses a read with MASTERDOWN.
        let command = word == "READONLY" ? Command("SET", "k", "v") : Command("GET", "k")
        try await expectWait(redis, on: server, for: word, command: command) {
            try await server.cli("REPLICAOF", "NO", "ONE")
        }
    }

    @Test("CLUSTERDOWN is waited out until the slot is served") func clusterDown() async throws {
        let server = try await RedisServer(RedisServer.clusterOfOne)
        let redis = Redis(try RedisURL(server.url), name: "t")
        try await expectWait(redis, on: server, for: "CLUSTERDOWN") { try await server.serveAllSlots() }
    }

    @Test("a command waits once for a cluster that is down, and its next calls find out at once")
    func patience() async throws {
        let server = try await RedisServer(RedisServer.clusterOfOne)
        let redis = Redis(try RedisURL(server.url), name: "t", patience: .once)
        func tries(_ timeout: Duration) async throws -> Int {
            let before = try await server.errors("CLUSTERDOWN")
            #expect(await code { try await redis.send(Command("GET", "k"), timeout: timeout) } == .clusterDown)
            return try await server.errors("CLUSTERDOWN") - before
        }
        #expect(try await tries(.seconds(2)) > 4)
        for _ in 1...3 {
            // A node without the slot still executes commands without keys.
            try await redis.send(Command("PING"))
            #expect(try await tries(.seconds(60)) <= 4)
        }
        try await server.serveAllSlots()
        try await eventually("the slot to be served") {
            await code { try await redis.send(Command("GET", "k")) } == nil
        }
    }

    @Test("the error names the node of a cluster that has the slot and does not answer") func lostNode() async throws {
        let cluster = try await RedisCluster()
        let number = try await cluster.owner(of: try await cluster.slot(of: "k"))
        let others = cluster.servers.indices.filter { $0 != number }
        for other in others {
            try await cluster.servers[other].cli("CONFIG", "SET", "cluster-require-full-coverage", "no")
        }
        let redis = Redis(try RedisURL("redis+cluster://127.0.0.1:\(cluster.ports[others[0]])"), name: "t")
        cluster.servers[number].signal(9)
        let error = await #expect(throws: RedisError.self) {
            try await redis.send(Command("GET", "k"), timeout: .seconds(1))
        }
        #expect(error?.code == .unreachable && error?.message.contains("\(cluster.ports[number])") == true, "\(error!)")
    }

    @Test("ASK and TRYAGAIN are waited out and never followed, and MOVED is followed", arguments: ["ASK", "TRYAGAIN"])
    func moving(_ word: String) async throws {
        let cluster = try await RedisCluster()
        let slot = try await cluster.slot(of: "{a}")
        let number = try await cluster.owner(of: slot)
        let (source, target) = (cluster.servers[number], cluster.servers[(number + 1) % 3])
        let port = cluster.ports[(number + 1) % 3]
        let redis = Redis(try RedisURL(cluster.url), name: "t")
        try await redis.send(Command("MSET", "{a}1", "x", "{a}2", "y"))
        try await target.cli("CLUSTER", "SETSLOT", "\(slot)", "IMPORTING", try await source.cli("CLUSTER", "MYID"))
        let targetID = try await target.cli("CLUSTER", "MYID")
        try await source.cli("CLUSTER", "SETSLOT", "\(slot)", "MIGRATING", targetID)
        // One of the two keys has moved. A command for both keys gets TRYAGAIN, a command for the moved key alone gets
        // ASK.
        try await source.cli("MIGRATE", "127.0.0.1", "\(port)", "{a}1", "0", "5000")
        let call = Task {
            await code {
                let keys = word == "ASK" ? ["{a}1"] : ["{a}1", "{a}2"]
                try await redis.send(Command(arguments: ["MGET"] + keys), timeout: .seconds(30))
            }
        }
        try await eventually("three replies with \(word)") { try await source.errors(word) >= 3 }
        let asked = try await target.cli("INFO", "commandstats")
        #expect(!asked.contains("cmdstat_mget") && !asked.contains("cmdstat_asking"))
        try await source.cli("MIGRATE", "127.0.0.1", "\(port)", "{a}2", "0", "5000")
        for server in [target, source] { try await server.cli("CLUSTER", "SETSLOT", "\(slot)", "NODE", targetID) }
        #expect(await call.value == nil)
        #expect(try await source.errors("MOVED") >= 1)
    }

    @Test("a server with too many clients is waited out until one of them disconnects")
    func tooManyClients() async throws {
        let server = try await RedisServer()
        let (first, second) = (
            Redis(try RedisURL(server.url), name: "t"), Redis(try RedisURL(server.url), name: "t")
        )
        try await first.connect()
        try await server.cli("CONFIG", "SET", "maxclients", "1")
        try await eventually("the error to be thrown") {
            await code { try await second.send(Command("PING"), timeout: .seconds(1)) } == .tooManyClients
        }
        async let waiting = code { try await second.send(Command("PING"), timeout: .seconds(30)) }
        await first.close()
        #expect(await waiting == nil)
    }
}
