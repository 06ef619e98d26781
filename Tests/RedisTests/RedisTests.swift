import Glibc
import HaulTestSupport
import Testing

@testable import HaulRedis

/// Calls from tasks that start on the connections' event loop, so that all calls are made in one turn of the loop.
private actor PendingCalls {
    nonisolated var unownedExecutor: UnownedSerialExecutor { Connection.loop.asUnownedSerialExecutor() }

    func sum(of count: Int, asking redis: Redis) async -> Int {
        let tasks = (0..<count).map { number in Task { await ask(redis, number) } }
        var sum = 0
        for task in tasks { sum += await task.value }
        return sum
    }

    /// Isolated to the loop, so that the tasks start on the loop.
    private func ask(_ redis: Redis, _ number: Int) async -> Int {
        (try? await redis.send(Command("ECHO", number)).int) ?? 0
    }
}

@Suite struct RedisURLTests {
    @Test("all forms of URLs are read") func forms() throws {
        #expect(try RedisURL("redis://").addresses.first == .tcp(host: "127.0.0.1", port: 6379))
        let full = try RedisURL("redis://u:p%40@h:1234/5")
        #expect(full.addresses.first == .tcp(host: "h", port: 1234))
        #expect(full.user == "u" && full.password == "p@" && full.database == 5)
        #expect(!full.redacted.contains("p@"))
        #expect(try RedisURL("redis://[::1]:7").addresses.first == .tcp(host: "::1", port: 7))
        #expect(try RedisURL("unix:///a/b?db=3").addresses.first == .unix(path: "/a/b"))
        #expect(try RedisURL("redis://secret@h").password == "secret")
    }

    @Test(
        "a wrong URL is refused as `badURL`",
        arguments: ["localhost", "http://h", "redis://h:99999", "redis://h/x", "unix://rel"])
    func wrong(_ text: String) { #expect { try RedisURL(text) } throws: { ($0 as? RedisError)?.code == .badURL } }
}

@Suite struct RedisClientTests {
    @Test("values are binary, and each of many concurrent callers gets its own reply") func order() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        let bytes: [UInt8] = [0, 13, 10, 255]
        try await redis.send(Command("SET", "k", bytes))
        #expect(try await redis.send(Command("GET", "k")).bytes == bytes)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for index in 0..<500 { group.addTask { try await redis.send(Command("ECHO", index)).int == index } }
            for try await isRight in group { #expect(isRight) }
        }
    }

    @Test("the commands of many callers in one turn of the loop are sent in one write") func batch() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        try await redis.send(Command("PING"))
        let before = try await server.statistic("total_reads_processed")
        let callers = PendingCalls()
        #expect(await callers.sum(of: 1000, asking: redis) == 1000 * 999 / 2)
        // Redis reads 16 KiB at a time, and the query for the statistic is a read, too.
        let reads = try await server.statistic("total_reads_processed") - before
        #expect(reads < 10)
    }

    @Test("a missing password is an error at once, and the right password signs in") func password() async throws {
        let server = try await RedisServer(["--requirepass", "secret"])
        await #expect { try await Redis(try RedisURL(server.url), name: "t").send(Command("PING")) } throws: {
            ($0 as? RedisError)?.code == .authentication
        }
        #expect(
            try await Redis(try RedisURL(server.url + "?password=secret"), name: "t").send(Command("PING"))
                == .status("PONG"))
    }

    @Test("a server that does not run is `unreachable`, and the message gives advice") func unreachable() async throws {
        await #expect {
            try await Redis(try RedisURL("unix:///tmp/no-such"), name: "t").send(
                Command("PING"), timeout: .seconds(2))
        } throws: {
            ($0 as? RedisError)?.code == .unreachable && "\($0)".contains("redis-server")
        }
    }

    @Test("a killed connection fails its pending calls, and the next call reconnects") func killed() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        let other = Redis(try RedisURL(server.url), name: "o")
        let id = try #require(try await redis.send(Command("CLIENT", "ID")).int)
        async let blocked = redis.pipeline([.command(Command("BLPOP", "none", "30"))], timeout: .seconds(31))
        try await eventually { try await other.send(Command("CLIENT", "LIST")).string?.contains("cmd=blpop") == true }
        try await other.send(Command("CLIENT", "KILL", "ID", id))
        do { _ = try await blocked; Issue.record("the call succeeded although its connection was killed") } catch {
            #expect((error as? RedisError)?.code == .closed)
        }
        #expect(try await redis.send(Command("PING")) == .status("PONG"))
    }

    @Test("a call to a server that hangs times out") func watchdog() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        try await redis.send(Command("PING"))
        server.signal(SIGSTOP)
        defer { server.signal(SIGCONT) }
        await #expect { try await redis.send(Command("PING"), timeout: .milliseconds(300)) } throws: {
            ($0 as? RedisError)?.code == .timedOut
        }
    }

    @Test("a try to connect to a server that hangs says which server that is") func hangs() async throws {
        let server = try await RedisServer()
        server.signal(SIGSTOP)
        defer { server.signal(SIGCONT) }
        let redis = Redis(try RedisURL(server.url), name: "t", patience: .once)
        await #expect { try await redis.connect(timeout: .milliseconds(200)) } throws: {
            ($0 as? RedisError)?.message.contains(server.socket) == true
        }
    }

    @Test("functions that the server lacks are loaded, beside the functions of other versions")
    func functions() async throws {
        let server = try await RedisServer()
        let redis = Redis(try RedisURL(server.url), name: "t")
        let versions = [1, 2].map { version in
            let body =
                "redis.register_function(LIBRARY .. '_join', function(k, a) return k[1] .. a[1] .. '\(version)' end)"
            return Library(name: "test", body: body).function("join")
        }
        for _ in 0..<2 {
            for (version, join) in zip([1, 2], versions) {
                #expect(try await redis.run(join, keys: ["a"], arguments: ["b"]).string == "ab\(version)")
            }
            #expect(try await redis.send(Command("FUNCTION", "LIST")).array?.count == 2)
            try await redis.send(Command("FUNCTION", "FLUSH"))
        }
        let broken = Library(name: "test", body: "this is not Lua").function("join")
        await #expect { try await redis.run(broken, keys: [], arguments: []) } throws: {
            "\($0)".contains("Error compiling function")
        }
    }

    @Test("a subscription is restored after a restart of the server") func subscription() async throws {
        let server = try await RedisServer()
        let url = try RedisURL(server.url)
        var subscriptions = 0
        var messages: [String] = []
        loop: for await element in Subscription(url, name: "t", channels: ["c"], patterns: ["p*"]) {
            switch element {
            case .subscribed where subscriptions == 0:
                subscriptions += 1
                try await Redis(url, name: "o").send(Command("PUBLISH", "c", "one"))
            case .subscribed:
                try await Redis(url, name: "o").send(Command("PUBLISH", "p1", "two"))
            case .message(_, let payload):
                messages.append(String(decoding: payload, as: UTF8.self))
                if messages.count == 1 { try await server.restart() } else { break loop }
            case .interrupted: break
            }
        }
        #expect(messages == ["one", "two"])
    }
}
