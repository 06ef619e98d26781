import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// What one client of aria2's JSON-RPC may cost.
@Suite struct Aria2BoundTests {
    private struct Bench {
        let fixture: WebFixture
        let api: API
        let aria2: Aria2
        let session: Aria2.Session

        init() async throws {
            fixture = try await WebFixture()
            let configuration = WebConfiguration(
                redis: try RedisURL(fixture.server.url), queues: [.default], addresses: [])
            let audit = AuditLog(configuration.log)
            api = API(configuration, audit)
            aria2 = Aria2(QueueReaderCache(fixture.queue), Admission(hosts: [], accounts: nil), audit, api)
            session = Aria2.Session(
                request: ServerRequest(
                    method: "POST", path: "/jsonrpc", query: "", fields: [], client: ClientAddress("127.0.0.1")!))
        }

        func respond(_ text: String) async throws -> JSON {
            var session = session
            return try JSON(try #require(await aria2.respond(to: Array(text.utf8), in: &session)))
        }
    }

    private func multicall(_ calls: [String]) -> String {
        #"{"id":1,"method":"system.multicall","params":[[\#(calls.joined(separator: ","))]]}"#
    }

    /// The results of multicalls, all in one list.
    private func results(_ responses: JSON) -> [JSON] {
        (responses.array ?? [responses]).flatMap { $0["result"]?.array ?? [] }
    }

    @Test("a text has at most a hundred calls, however they are nested") func calls() async throws {
        let bench = try await Bench()
        let sixty = multicall((0..<60).map { _ in #"{"methodName":"aria2.getVersion","params":[]}"# })
        for _ in 0..<2 {
            let results = results(try await bench.respond("[\(sixty),\(sixty)]"))
            #expect(results.count { $0.array?.first?["version"] != nil } == 100)
            let errors = results.compactMap { $0["message"]?.string }
            #expect(errors.count == 20 && errors.allSatisfy { $0.contains("100 calls") }, "\(errors)")
        }
    }

    @Test("the calls of a text answer some MiB together, and later ones an error") func bytes() async throws {
        let bench = try await Bench()
        let keys = bench.fixture.queue.keys
        let message = String(repeating: "m", count: 2000)
        for number in 0..<500 {
            let fields = ["state", "failed", "url", "http://h/", "message", message]
            try await bench.fixture.queue.redis.send(Command(arguments: ["HSET", keys.job("f\(number)")] + fields))
            try await bench.fixture.queue.redis.send(Command("ZADD", keys.index(.failed), number, "f\(number)"))
        }
        let calls = (0..<20).map { _ in #"{"methodName":"aria2.tellStopped","params":[0,1000]}"# }
        let results = results(try await bench.respond(multicall(calls)))
        let answered = results.count { $0.array?.first?.array?.count == 500 }
        #expect(results.count == 20 && (2...5).contains(answered), "\(answered)")
        #expect(results.last?["message"]?.string?.contains("4 MiB") == true)
    }

    @Test("a search through the waiting jobs counts among the caller's searches, with those of the API")
    func searches() async throws {
        let bench = try await Bench()
        let caller = Caller(visitor: Visitor(name: nil, role: .operator), client: ClientAddress("127.0.0.1")!)
        let status = #"{"id":1,"method":"aria2.tellStatus","params":["0123456789abcdef"]}"#
        do {
            let holds = [1, 2].map { bench.api.calls.hold(1000 + $0, for: caller) }
            for method in ["tellStatus", "getFiles", "getUris", "getOption", "pause"] {
                let call = status.replacing("tellStatus", with: method)
                let message = try await bench.respond(call).at("error", "message")?.string
                #expect(message?.contains("too many searches") == true, "\(method): \(message ?? "")")
            }
            withExtendedLifetime(holds) {}
        }
        #expect(try await bench.respond(status).at("error", "message")?.string?.contains("is not found") == true)
    }

    @Test("a call that Redis refuses does not hide the results of the others") func partFails() async throws {
        let bench = try await Bench()
        try await bench.fixture.queue.redis.send(Command("SET", bench.fixture.queue.keys.settings, "no hash"))
        let results = results(
            try await bench.respond(
                multicall([
                    #"{"methodName":"aria2.addUri","params":[["http://h/film"]]}"#,
                    #"{"methodName":"aria2.getGlobalOption","params":[]}"#,
                ])))
        #expect(results.first?.array?.first?.string?.utf8.count == 16)
        #expect(results.last?["message"]?.string?.hasPrefix("Redis: ") == true, "\(results)")
    }

    @Test("a frame of a few bytes costs the same behind a long message as behind a short one") func frames() throws {
        func time(behind length: Int) throws -> Duration {
            let text = [UInt8](repeating: 0x61, count: length)
            var start = WebSocketReader.frame(0x1, text)
            start[0] = 0x01
            start[1] |= 0x80
            start.insert(contentsOf: [0, 0, 0, 0], at: start.count - length)
            var reader = WebSocketReader(maxLength: 1 << 20)
            reader.add(start)
            #expect(try reader.next() == nil)
            return try ContinuousClock().measure {
                for _ in 0..<20 {
                    reader.add((0..<100).flatMap { _ in [0x00, 0x80, 0, 0, 0, 0] as [UInt8] })
                    _ = try reader.next()
                }
            }
        }
        // The best of some runs, because the machine may be busy.
        let (short, long) = try (0..<5).reduce((Duration.seconds(99), Duration.seconds(99))) { best, _ in
            (min(best.0, try time(behind: 10)), min(best.1, try time(behind: (1 << 20) - 1)))
        }
        #expect(long < short * 4, "\(long), \(short)")
    }
}
