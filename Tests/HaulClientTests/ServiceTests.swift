import Glibc
import HaulClient
import HaulTestSupport
import Testing

/// The shape of `Service` of swift-service-lifecycle, of which the package needs no copy.
private protocol Service: Sendable {
    func run() async throws
}

extension HaulQueue: Service {}

@Suite struct ServiceTests {
    @Test("a wrong password ends a queue that runs as a service, and closes it") func refused() async throws {
        let server = try await RedisServer(["--requirepass", "s3cret"])
        let queue = try HaulQueue(redis: server.url)
        let service: any Service = queue
        await #expect { try await service.run() } throws: { ($0 as? HaulError)?.code == .refused }
        await #expect { try await queue.stats() } throws: { ($0 as? HaulError)?.code == .closed }
    }

    @Test(
        "a queue is a service that opens and logs lost connections, and ends with its task",
        .timeLimit(.minutes(2)))
    func logs() async throws {
        let server = try await RedisServer()
        let log = LogLines()
        let queue = try HaulQueue(redis: server.url, queue: "films", logger: log.logger)
        let service: any Service = queue
        let running = Task { try await service.run() }
        let events = Task { for try await _ in queue.events {} }
        let replies = Task { for try await _ in try queue.replies(to: "shop") {} }
        func connections() async throws -> Set<String> {
            let clients = try await server.cli("CLIENT", "LIST").split(separator: "\n")
            return Set(clients.compactMap { $0.firstMatch(of: /name=(haul-client\S*)/).map { String($0.1) } })
        }
        let all: Set = ["haul-client", "haul-client-events", "haul-client-replies"]
        try await eventually("the connections") { try await connections() == all }
        try await server.restart(by: SIGKILL)
        try await eventually("the connections to be back") { try await connections() == all }
        func count(_ words: String...) -> Int {
            log.lines.filter { line in words.allSatisfy(line.contains) }.count
        }
        for purpose in ["commands", "events", "replies"] {
            try await eventually("the return of \(purpose) to be logged") {
                count("notice Redis is back", "connection=\(purpose)") == 1
            }
            #expect(count("warning no connection to Redis", "connection=\(purpose)", "queue=films") == 1)
        }
        events.cancel()
        replies.cancel()
        running.cancel()
        // A cancelled service ends normally, and leaves nothing open.
        try await running.value
        try await eventually("the connections to be closed") { try await connections().isEmpty }
        _ = await (events.result, replies.result)
    }

    @Test("neither a password nor what Redis says of it is logged") func secrets() async throws {
        let server = try await RedisServer(["--requirepass", "s3cret"])
        let log = LogLines()
        for url in ["redis://u:s3cret@127.0.0.1:1", "\(server.url)?password=s3cret-and-wrong&user=default"] {
            let queue = try HaulQueue(redis: url, logger: log.logger)
            await #expect(throws: HaulError.self) { try await queue.stats() }
            await queue.close()
        }
        #expect(log.lines.count == 2 && log.lines.allSatisfy { $0.contains("warning no connection to Redis") })
        #expect(!log.lines.contains { $0.contains("s3cret") }, "\(log.lines)")
    }
}
