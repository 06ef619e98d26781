import HaulActivities
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import HaulWorker
import Logging
import Testing

/// Whether a worker can run a kind that it does not know, through the protocol of activities alone.
@Suite struct SleepTests {
    private let server: RedisServer
    private let queue: Queue
    private let root = TemporaryDirectory()

    init() async throws {
        server = try await RedisServer()
        queue = Queue(.default, redis: Redis(try RedisURL(server.url), name: "test"))
    }

    /// Runs a worker that sleeps instead of sending requests, while `body` runs.
    private func withWorker(_ name: String, _ body: () async throws -> Void) async throws {
        let configuration = WorkerConfiguration(redis: try RedisURL(server.url), root: root.path, name: name)
        let log = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
        let worker = try Worker(configuration, kinds: [.request: { Sleep($0, $1) }], log: log)
        let running = Task { try await worker.run() }
        let result: Result<Void, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        running.cancel()
        try await running.value
        try result.get()
    }

    private func push(_ milliseconds: Int) async throws {
        let element = #"{"id":"s","kind":"request","method":"PUT","url":"http://h/","body":"\#(milliseconds)"}"#
        try await queue.redis.send(Command("LPUSH", queue.keys.jobs, element))
    }

    private func wait(for state: JobState) async throws {
        try await eventually("\(state)") { try await queue.job("s")?.state == state }
    }

    @Test("a job that sleeps continues in the next worker where a shutdown has stopped it") func continues()
        async throws
    {
        try await push(3_000)
        try await withWorker("first") {
            try await eventually("a checkpoint") { try await queue.job("s")?.offsets.count ?? 0 > 0 }
        }
        let left = try #require(try await queue.job("s"))
        #expect(left.state == .queued && left.offsets.count > 0 && left.offsets.count < 3_000)
        let begun = ContinuousClock.now
        try await withWorker("second") { try await wait(for: .completed) }
        #expect(ContinuousClock.now - begun >= .milliseconds(3_000 - left.offsets.count))
    }

    @Test("a cancelled job stops sleeping") func cancelled() async throws {
        try await push(3_600_000)
        try await withWorker("w") {
            try await wait(for: .running)
            try await queue.request(.cancelled, of: ["s"])
            try await wait(for: .cancelled)
        }
    }
}
