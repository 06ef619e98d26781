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

    @Test("what is wrong with a call is said briefly, however long the call is") func brief() async throws {
        let bench = try await Bench()
        let long = String(repeating: "a", count: 1 << 20)
        for call in [
            #"{"id":"\#(long)","method":"system.listMethods"}"#, #"{"id":["\#(long)"],"method":"x"}"#,
            #"{"id":1,"method":"\#(long)"}"#, #"{"id":1,"method":"aria2.tellStatus","params":["\#(long)"]}"#,
        ] {
            let answer = try await bench.respond(call)
            #expect(answer.text.utf8.count < 2000 && answer["error"] != nil, "\(call.prefix(60)): \(answer.text)")
        }
        for id in ["1", "\"a\"", "null", "1.5"] {
            let answer = try await bench.respond(#"{"id":\#(id),"method":"system.listMethods"}"#)
            #expect(answer["result"] != nil && answer["id"]?.text == id, "\(answer.text)")
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

    @Test(
        "methods that need no token count as calls, and so do unknown ones",
        arguments: [
            "system.listMethods", "system.listNotifications", "aria2.nothing",
        ])
    func countedMethods(_ method: String) async throws {
        let bench = try await Bench()
        let sixty = multicall((0..<60).map { _ in #"{"methodName":"\#(method)","params":[]}"# })
        let results = results(try await bench.respond("[\(sixty),\(sixty)]"))
        #expect(results.count { $0["message"]?.string?.contains("100 calls") == true } == 20)
    }

    @Test("figures of running jobs are read once for all calls, and lists one after the other")
    func shared() async throws {
        let bench = try await Bench()
        let queue = bench.fixture.queue
        for number in 0..<300 {
            try await queue.redis.send(
                Command("HSET", queue.keys.job("r\(number)"), "state", "running", "speed", 10, "worker", "w1"))
            try await queue.redis.send(Command("ZADD", queue.keys.leases, number, "r\(number)"))
        }
        func reads() async throws -> Int {
            let stats = try await queue.redis.send(Command("INFO", "commandstats")).string ?? ""
            let calls = stats.firstMatch(of: /cmdstat_hmget:calls=(\d+)/)?.1
            return calls.flatMap { Int($0) } ?? 0
        }
        let before = try await reads()
        let calls = (0..<100).map { _ in #"{"methodName":"aria2.getGlobalStat","params":[]}"# }
        let results = results(try await bench.respond(multicall(calls)))
        #expect(results.count { $0.array?.first?["downloadSpeed"]?.string == "3000" } == 100, "\(results.first!)")
        // The text may have taken longer than the figures are kept.
        #expect(try await reads() - before < 3000)
        let caller = Caller(visitor: Visitor(name: nil, role: .operator), client: ClientAddress("127.0.0.1")!)
        var holds = [1, 2].map { bench.api.calls.hold(1000 + $0, for: caller) }
        let list = Task { try await bench.respond(multicall([#"{"methodName":"aria2.tellActive","params":[]}"#])) }
        #expect(holds.count == 2)
        holds = []
        #expect(try await list.value["result"]?.array?.first?.array?.first?.array?.count == 300)
    }

    @Test("options of which one cannot be changed change nothing, and a retry and a pause are in the list of changes")
    func changes() async throws {
        let bench = try await Bench()
        let queue = bench.fixture.queue
        let options =
            #"{"id":1,"method":"aria2.changeGlobalOption","params":[{"max-concurrent-downloads":"1","dir":"/x"}]}"#
        #expect(try await bench.respond(options).at("error", "message")?.string?.hasPrefix("dir ") == true)
        #expect(try await queue.settings()["max_running"] == nil)
        #expect(try await queue.changes().isEmpty)
        let add =
            #"{"id":1,"method":"aria2.addUri","params":[["http://h/f"],{"pause":"true","gid":"00000000000000aa"}]}"#
        #expect(try await bench.respond(add)["result"]?.string == "00000000000000aa")
        let pause = try #require(try await queue.changes().first)
        #expect(pause.action == "pause" && pause.ids == ["00000000000000aa"] && pause.at != nil)
        try await queue.redis.send(Command("HSET", queue.keys.job("00000000000000bb"), "state", "failed"))
        let retry =
            #"{"id":1,"method":"aria2.addUri","params":[["http://h/f"],{"haul-retry":"00000000000000bb"}]}"#
        #expect(try await bench.respond(retry)["result"]?.string == "00000000000000bb")
        #expect(try await queue.changes().map(\.action) == ["retry", "pause"])
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
