import Foundation
import Glibc
import HaulTestSupport
import Testing

/// A Redis that refuses everything for a while, for each possible reason. A worker logs the reason in one sentence,
/// retries rarely, and continues afterwards. MASTERDOWN is missing, because a write to a replica gets READONLY first.
@Suite struct RefusalTests {
    struct Refusal: Sendable, CustomTestStringConvertible {
        /// The first word of the error reply.
        let word: String
        /// The sentence in the worker's log.
        let sentence: String
        var settings: [String] = []
        /// Runs before a worker starts.
        var prepare: @Sendable (RedisServer) async throws -> Void = { _ in }
        let begin: @Sendable (RedisServer) async throws -> Void
        let end: @Sendable (RedisServer) async throws -> Void

        var testDescription: String { word }
    }

    static let refusals = [
        Refusal(
            word: "NOREPLICAS", sentence: "too few replicas to accept writes: see min-replicas-to-write",
            begin: { try await $0.cli("CONFIG", "SET", "min-replicas-to-write", "1") },
            end: { try await $0.cli("CONFIG", "SET", "min-replicas-to-write", "0") }),
        Refusal(
            word: "MISCONF", sentence: "cannot save to its disk: read its log",
            settings: ["--save", "3600 1", "--dbfilename", "d.rdb"],
            begin: { try await $0.breakSaving("d.rdb") }, end: { try await $0.mendSaving("d.rdb") }),
        Refusal(
            word: "READONLY", sentence: "this Redis is a replica: name the primary, or its sentinels",
            begin: { try await $0.cli("REPLICAOF", "127.0.0.1", "\(FreePort.next())") },
            end: { try await $0.cli("REPLICAOF", "NO", "ONE") }),
        Refusal(
            word: "CLUSTERDOWN", sentence: "the Redis Cluster is down: not all slots are served",
            settings: RedisServer.clusterOfOne,
            prepare: { try await $0.serveAllSlots() },
            begin: { try await $0.cli("CLUSTER", "DELSLOTSRANGE", "0", "16383") },
            end: { try await $0.serveAllSlots() }),
        Refusal(
            word: "LOADING", sentence: "is loading its data: it becomes available by itself",
            settings: RedisServer.slowLoading,
            begin: { try await $0.beginLoading() }, end: { try await $0.endLoading() }),
    ]

    @Test("a worker logs the refusal, retries rarely, and continues afterwards", arguments: refusals)
    func refusal(_ refusal: Refusal) async throws {
        let fleet = try await ProcessFleet(refusal.settings, held: nil)
        try await refusal.prepare(fleet.server)
        let worker = try fleet.worker("w")
        try await fleet.push("a")
        try await fleet.wait("a", for: "completed")
        let start = ContinuousClock.now
        try await refusal.begin(fleet.server)
        try await fleet.wait(for: refusal.sentence, from: worker)
        try await eventually("further attempts") { try await fleet.server.errors(refusal.word) >= 8 }
        try await refusal.end(fleet.server)
        try await fleet.push("b")
        try await fleet.wait("b", for: "completed")
        let seconds = Int((ContinuousClock.now - start).components.seconds) + 1
        // Two connections, a few quick attempts on each and then about two a second, with two commands each. A busy
        // loop would make thousands.
        #expect(try await fleet.server.errors(refusal.word) <= 60 + 20 * seconds)
        let count = worker.standardError.components(separatedBy: refusal.sentence).count - 1
        #expect(count <= 2 + seconds, "\(worker.standardError.suffix(2000))")
        try await fleet.end(worker)
    }

    @Test("a worker logs that a script keeps Redis busy, and continues after it") func busy() async throws {
        let fleet = try await ProcessFleet(["--busy-reply-threshold", "10"], held: nil)
        let worker = try fleet.worker("w")
        try await fleet.push("a")
        try await fleet.wait("a", for: "completed")
        let script = try ChildProcess("redis-cli", ["-s", fleet.server.socket, "EVAL", "while true do end", "0"])
        try await fleet.wait(for: "a script keeps Redis busy", from: worker)
        let start = ContinuousClock.now
        try await eventually { try await fleet.server.cli("SCRIPT", "KILL") == "OK" }
        try await fleet.push("b")
        try await fleet.wait("b", for: "completed")
        let seconds = Int((ContinuousClock.now - start).components.seconds) + 10
        #expect(try await fleet.server.errors("BUSY") <= 60 + 20 * seconds)
        _ = try await script.wait()
        try await fleet.end(worker)
    }

    @Test(
        "a wait that another client ends, by an error or a timeout, is repeated at once",
        arguments: ["ERROR", "TIMEOUT"])
    func unblocked(_ how: String) async throws {
        let fleet = try await ProcessFleet(held: nil)
        let worker = try fleet.worker("w")
        for round in 1...3 {
            try await eventually("CLIENT UNBLOCK to end a wait") {
                let clients = try await fleet.server.cli("CLIENT", "LIST").split(separator: "\n")
                let waiting = clients.first { $0.contains("cmd=blmove") && $0.contains("flags=b") }
                guard let id = waiting?.split(separator: " ").first?.dropFirst("id=".count) else { return false }
                return try await fleet.server.cli("CLIENT", "UNBLOCK", String(id), how) == "1"
            }
            try await fleet.push("\(round)")
            try await fleet.wait("\(round)", for: "completed")
        }
        #expect(!worker.standardError.contains("Redis failed"), "\(worker.standardError.suffix(1000))")
        try await fleet.end(worker)
    }

    @Test("while Redis loads its data, load-functions waits, and a worker that waits ends at once with status 0")
    func loading() async throws {
        let (server, root) = (try await RedisServer(RedisServer.slowLoading), TemporaryDirectory())
        try await server.beginLoading()
        func start(_ arguments: String...) throws -> ChildProcess {
            try ChildProcess("haul", arguments, environment: ["HAUL_REDIS": server.url])
        }
        let (load, worker) = (try start("load-functions"), try start("worker", "--root", root.path))
        for (process, words) in [(load, "trying again"), (worker, "is loading its data")] {
            try await eventually("the refusal") { process.standardError.contains(words) || !process.isRunning }
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0, "\(worker.standardError)")
        try await server.endLoading()
        #expect(try await load.wait() == 0 && load.standardOutput.contains("is loaded"), "\(load.standardError)")
    }
}
