import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulExecutors
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// A worker's start on Redis.
@Suite struct StartTests {
    @Test("a worker whose connection is killed while it registers tries again until it is registered")
    func killed() async throws {
        let fleet = try await Fleet()
        // Functions are held up, commands that read are not.
        try await fleet.server.cli("CLIENT", "PAUSE", "600000", "WRITE")
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        try await fleet.withWorker("w") {
            for _ in 1...3 {
                try await eventually("the worker to register", every: .milliseconds(20)) {
                    let clients = try await fleet.server.cli("CLIENT", "LIST").split(separator: "\n")
                    let registering = clients.first { $0.contains("name=haul-w ") && $0.contains("cmd=fcall") }
                    guard let id = registering?.split(separator: " ").first?.dropFirst("id=".count) else {
                        return false
                    }
                    return try await fleet.server.cli("CLIENT", "KILL", "ID", String(id)) == "1"
                }
            }
            try await fleet.server.cli("CLIENT", "UNPAUSE")
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a"}"#)
            try await fleet.wait("a", for: .completed)
        }
    }

    @Test("a job that was paused or cancelled while no worker ran is not started by the next worker")
    func requested() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        for id in ["a", "b"] { try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"\#(id)"}"#) }
        try await fleet.queue.request(.paused, of: ["a"])
        try await fleet.queue.request(.cancelled, of: ["b"])
        try await fleet.withWorker("w") {
            try await fleet.wait("a", for: .paused)
            try await fleet.wait("b", for: .cancelled)
        }
        #expect(origin.requests.isEmpty)
    }

    @Test("a starting worker waits for a Redis that accepts no more clients, and logs why")
    func refused() async throws {
        let fleet = try await Fleet()
        let logged = Shared<[String]>([])
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        try await fleet.queue.redis.send(Command("CONFIG", "SET", "maxclients", 1))
        let worker = try fleet.worker("w", log: Warnings.log(to: logged))
        let running = Task { try await worker.run() }
        try await eventually("the worker to log why it waits") { !logged.value.isEmpty }
        #expect(logged.value.filter { !$0.contains("raise maxclients") } == [])
        try await fleet.queue.redis.send(Command("CONFIG", "SET", "maxclients", 100))
        try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a"}"#)
        try await fleet.wait("a", for: .completed)
        running.cancel()
        try await running.value
    }

    @Test("a starting worker waits for a primary that does not answer, and logs why") func failover() async throws {
        let (port, sentinelPort) = (FreePort.next(), FreePort.next())
        let directory = TemporaryDirectory()
        let settings = "port \(sentinelPort)\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 \(port) 1\n"
        try settings.write(toFile: directory.file("sentinel.conf"), atomically: true, encoding: .utf8)
        let sentinel = try ChildProcess("redis-server", [directory.file("sentinel.conf"), "--sentinel"])
        defer { sentinel.kill(SIGKILL) }
        let url = "redis+sentinel://127.0.0.1:\(sentinelPort)/main"
        try await eventually("the sentinel to answer") {
            let asking = Redis(try RedisURL(url), name: "test")
            do {
                try await asking.connect(timeout: .milliseconds(100))
                return false
            } catch { return (error as? RedisError)?.code == .noPrimary }
        }
        let fleet = try await Fleet()
        let logged = Shared<[String]>([])
        let worker = try fleet.worker("w", url: url, log: Warnings.log(to: logged))
        let running = Task { try await worker.run() }
        // On a busy machine the sentinel itself may be late at first.
        try await eventually("the worker to log why it waits", within: .seconds(20)) {
            logged.value.contains { $0.contains("the sentinels name a primary main that does not answer") }
        }
        #expect(logged.value.allSatisfy { $0.contains("primary main") || $0.contains("no connection to Redis at") })
        let server = try await RedisServer(["--bind", "127.0.0.1", "--port", "\(port)"])
        let queue = Queue(.default, redis: Redis(try RedisURL(url), name: "test"))
        try await eventually("the worker to register", within: .seconds(20)) {
            (try? await queue.workers())?.isEmpty == false
        }
        running.cancel()
        try await running.value
        withExtendedLifetime(server) {}
    }

    @Test("a worker ends if no sentinel knows the name of its primary", .timeLimit(.minutes(1)))
    func unnamed() async throws {
        let port = FreePort.next()
        let directory = TemporaryDirectory()
        try "port \(port)\nbind 127.0.0.1\n".write(
            toFile: directory.file("sentinel.conf"), atomically: true, encoding: .utf8)
        let sentinel = try ChildProcess("redis-server", [directory.file("sentinel.conf"), "--sentinel"])
        defer { sentinel.kill(SIGKILL) }
        let worker = try (try await Fleet()).worker("w", url: "redis+sentinel://127.0.0.1:\(port)/nobody")
        await #expect { try await worker.run() } throws: {
            ($0 as? RedisError)?.code == .unreachable && "\($0)".contains("correct the URL")
        }
    }

    @Test(
        "a worker ends if Redis was never reachable, is another server, or refuses the password",
        .timeLimit(.minutes(1)))
    func final() async throws {
        let fleet = try await Fleet(["--requirepass", "right"])
        let (listener, port) = try LoopbackSocket.listen()
        defer { shutdown(listener, Int32(SHUT_RDWR)) }
        startThread(name: "no-redis") {
            while case let client = accept(listener, nil, nil), client >= 0 {
                let answer = Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)
                send(client, answer, answer.count, Int32(MSG_NOSIGNAL))
                var byte: UInt8 = 0
                while recv(client, &byte, 1, 0) > 0 {}
                close(client)
            }
            close(listener)
        }
        for (url, code) in [
            ("unix:///nowhere/redis.sock", RedisError.Code.unreachable),
            ("redis://127.0.0.1:\(port)", .unreachable),
            ("\(fleet.server.url)?password=wrong", .authentication),
        ] {
            let worker = try fleet.worker("w", url: url)
            await #expect { try await worker.run() } throws: { ($0 as? RedisError)?.code == code }
        }
    }
}
