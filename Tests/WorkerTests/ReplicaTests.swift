import Glibc
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus
@testable import HaulWorker

/// A worker that announces completed jobs when replicas have them.
@Suite struct ReplicaTests {
    @Test("a completed job is announced when a replica has it, and not before") func waits() async throws {
        let ports = [FreePort.next(), FreePort.next()]
        let fleet = try await Fleet(["--bind", "127.0.0.1", "--port", "\(ports[0])", "--repl-diskless-sync-delay", "0"])
        let replica = try await RedisServer(
            ["--bind", "127.0.0.1", "--port", "\(ports[1])", "--replicaof", "127.0.0.1 \(ports[0])"])
        try await eventually("the replica to follow", within: .seconds(30)) {
            try await replica.cli("INFO", "replication").contains("master_link_status:up")
        }
        let origin = try OriginServer { _ in OriginReply(body: Array("small".utf8)) }
        func push(_ id: String) async throws {
            try await fleet.push(#"{"url":"\#(origin.url("/" + id))","id":"\#(id)","reply_to":"me"}"#)
        }
        func reported() async throws -> Int? {
            try await fleet.queue.redis.send(Command("LLEN", fleet.queue.keys.reply("me"))).int
        }
        let logged = Shared<[String]>([])
        let worker = try fleet.worker("w", log: Warnings.log(to: logged)) { $0.settleReplicas = 1 }
        let running = Task { try await worker.run() }
        try await push("a")
        try await eventually("the reply for a") { try await reported() == 1 }
        #expect(try await replica.cli("HGET", fleet.queue.keys.job("a"), "state") == "completed")

        replica.signal(SIGSTOP)
        try await push("b")
        try await fleet.wait("b", for: .completed)
        try await eventually("the worker to log that it waits", within: .seconds(20)) {
            logged.value.contains { $0.contains("too few replicas") }
        }
        #expect(try await reported() == 1)
        #expect(try await fleet.queue.job("b")?.hasEnded == false)
        replica.signal(SIGCONT)
        try await eventually("the reply for b", within: .seconds(20)) { try await reported() == 2 }
        #expect(try await fleet.queue.job("b")?.hasEnded == true)
        let event = try await fleet.queue.redis.send(Command("LINDEX", fleet.queue.keys.reply("me"), 0)).bytes
        #expect(event.flatMap { Event($0) }?["unreplicated"] == nil)
        running.cancel()
        try await running.value
        try await fleet.expectOrder()
    }
}
