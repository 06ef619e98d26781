import Glibc
import HaulRedis
import HaulTestSupport
import Testing

/// PendingCalls that are cancelled before their replies arrive.
@Suite struct AbandonmentTests {
    private func code(_ body: () async throws -> Void) async -> RedisError.Code? {
        do { try await body() } catch { return (error as? RedisError)?.code }
        return nil
    }

    @Test("a cancelled caller returns at once, and the others still get their own replies")
    func cancelled() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        let id = try await redis.send(Command("CLIENT", "ID")).int
        let reads = try await server.statistic("total_reads_processed")
        server.signal(SIGSTOP)
        let leaving = Task { await code { try await redis.send(Command("INCR", "n"), timeout: .seconds(60)) } }
        let staying = (1...3).map { number in
            Task { try await redis.send(Command("ECHO", number), timeout: .seconds(60)).int }
        }
        leaving.cancel()
        // The server is stopped, so no reply can have ended the call.
        #expect(await leaving.value == .cancelled)
        server.signal(SIGCONT)
        for (number, task) in zip(1..., staying) { #expect(try await task.value == number) }
        // The cancelled call's reply was read, and the connection is still the same.
        #expect(try await redis.send(Command("CLIENT", "ID")).int == id)
        #expect(try await server.statistic("total_reads_processed") > reads)
    }

    @Test("a caller that was cancelled before its call sends nothing") func early() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return await code { try await redis.send(Command("INCR", "n")) }
        }
        task.cancel()
        #expect(await task.value == .cancelled)
        #expect(try await server.cli("EXISTS", "n") == "0")
    }

    @Test("a caller that is cancelled while the connection is opened returns at once") func connecting() async throws {
        let server = try await RedisServer()
        server.signal(SIGSTOP)
        let redis = Redis(try RedisURL(server.url), name: "t")
        let leaving = Task { await code { try await redis.send(Command("PING"), timeout: .seconds(60)) } }
        try await eventually { !LostConnections.sockets(to: server.socket).isEmpty }
        leaving.cancel()
        #expect(await leaving.value == .cancelled)
        server.signal(SIGCONT)
        #expect(try await redis.send(Command("PING")) == .status("PONG"))
    }

    @Test("a cancelled blocking call does not hold up later calls") func wait() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        let leaving = Task {
            await code {
                _ = try await redis.pipeline([.command(Command("BLPOP", "none", "60"))], blocking: .seconds(60))
            }
        }
        try await eventually { try await server.statistic("blocked_clients") == 1 }
        leaving.cancel()
        #expect(await leaving.value == .cancelled)
        #expect(try await redis.send(Command("PING")) == .status("PONG"))
    }

    @Test("a cancelled caller still gets its reply if the client's replies are `.owed`") func owed() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t", replies: .owed)
        let task = Task {
            try await redis.pipeline([.command(Command("BLPOP", "l", "60"))], blocking: .seconds(60))[0].array?.count
        }
        try await eventually { try await server.statistic("blocked_clients") == 1 }
        task.cancel()
        try await server.cli("LPUSH", "l", "x")
        #expect(try await task.value == 2)
    }
}
