import HaulTestSupport
import Testing

/// `haul health`, as a container's health check runs it.
@Suite struct HealthCommandTests {
    private func ask(_ arguments: [String], environment: [String: String] = [:]) async throws -> (
        status: Int32, out: String, err: String
    ) {
        let command = try ChildProcess("haul", ["health"] + arguments, environment: environment)
        let status = try await command.wait(within: .seconds(20))
        return (status, command.standardOutput, command.standardError)
    }

    @Test("haul health prints the worker's answer, and exits with 0 if it is healthy and with 1 if not")
    func answers() async throws {
        let server = try OriginServer { request in
            request.path == "/healthz"
                ? OriginReply(body: Array("ok\n".utf8)) : OriginReply(503, body: Array("Redis does not answer\n".utf8))
        }
        let address = String(server.url("").dropFirst("http://".count))
        let well = try await ask([address])
        #expect(well == (0, "ok\n", ""))
        let ready = try await ask(["--ready"], environment: ["HAUL_HTTP": address])
        #expect(ready == (1, "", "haul: Redis does not answer\n"))
        // The forms of an address on which a worker listens on all interfaces.
        let port = try #require(address.split(separator: ":").last)
        #expect(try await ask([":\(port)"]).status == 0)
        #expect(try await ask(["0.0.0.0:\(port)"]).status == 0)
    }

    @Test("haul health exits with 1 if no server answers, or another program does") func silence() async throws {
        let nobody = try await ask(["127.0.0.1:\(FreePort.next())"])
        #expect(nobody.status == 1 && nobody.err.contains("Connection refused"), "\(nobody)")
        let redis = try await RedisServer()
        let other = try await ask(["unix:\(redis.socket)"])
        #expect(other.status == 1 && other.err.contains("not a worker of Haul"), "\(other)")
        let latch = Latch()
        defer { latch.open() }
        let server = try OriginServer { request in
            latch.wait()
            return OriginReply()
        }
        let silent = try await ask([String(server.url("").dropFirst("http://".count)), "--timeout", "1"])
        #expect(silent.status == 1 && silent.err.contains("it is silent"), "\(silent)")
    }

    @Test("haul health refuses an invalid address", arguments: ["9464", "host", "::1:80", "host:99999", "unix:", ""])
    func addresses(_ text: String) async throws {
        let refused = try await ask([text])
        #expect(refused.status == 2, "\(refused)")
    }
}
