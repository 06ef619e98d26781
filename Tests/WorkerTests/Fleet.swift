import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Logging
import Testing

@testable import HaulWorker

/// Workers in this process that share a Redis server of their own and a root.
final class Fleet: Sendable {
    let server: RedisServer
    let queue: Queue
    let root = TemporaryDirectory()

    init(_ settings: [String] = []) async throws {
        server = try await RedisServer(settings)
        queue = Queue(.default, redis: Redis(try RedisURL(server.url), name: "test"))
    }

    /// Runs a worker while `body` runs, then shuts it down. With `isOrderly` the rules of the bus are checked at the
    /// end.
    func withWorker<T: Sendable>(
        _ name: String, slots: Int? = 3, isOrderly: Bool = true,
        _ change: (inout WorkerConfiguration) -> Void = { _ in },
        _ body: () async throws -> T
    ) async throws -> T {
        let worker = try worker(name) {
            $0.slots = slots
            change(&$0)
        }
        let running = Task { try await worker.run() }
        do {
            let result = try await body()
            running.cancel()
            try await running.value
            if isOrderly { try await expectOrder() }
            return result
        } catch {
            running.cancel()
            try await running.value
            throw error
        }
    }

    /// A worker that is not started yet. `url` is that of another Redis server than the fleet's.
    func worker(
        _ name: String, url: String? = nil, log: Logger = Fleet.errors,
        _ change: (inout WorkerConfiguration) -> Void = { _ in }
    ) throws -> Worker {
        var configuration = WorkerConfiguration(redis: try RedisURL(url ?? server.url), root: root.path, name: name)
        configuration.addressPolicy = .unrestricted
        configuration.uploadFrom = root.path
        change(&configuration)
        return try Worker(configuration, log: log)
    }

    static var errors: Logger {
        var log = Logger(label: "test", factory: { StreamLogHandler.standardError(label: $0) })
        log.logLevel = .error
        return log
    }

    func push(_ element: String) async throws { try await queue.redis.send(Command("LPUSH", queue.keys.jobs, element)) }

    func state(_ id: String) async throws -> JobState? { try await queue.job(id)?.state }

    func wait(_ id: String, for state: JobState) async throws {
        try await eventually("\(id) to be \(state)") { try await self.state(id) == state }
    }

    /// Checks that the rules of the bus hold for every key.
    func expectOrder() async throws {
        let findings = try await Inspection(queue).run()
        #expect(findings.isEmpty, "\(findings.map { "\($0.subject): \($0.problem)" })")
    }
}
