import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// A queue whose clock stands still unless the test moves it.
struct ScheduleBench {
    let c: ClockedQueue
    var f: QueueFixture { c.f }
    var queue: Queue { c.queue }
    let other = WorkerIdentity(name: "w2", store: "s")

    init() async throws {
        c = try await ClockedQueue()
        _ = try await queue.register(other, fields: [], known: [])
    }

    func define(_ name: String, _ definition: String) async throws {
        try await f.redis.send(Command("HSET", queue.keys.schedules, name, definition))
    }

    /// A tick of one worker, with what it does for schedules.
    func tick(_ worker: WorkerIdentity? = nil) async throws {
        let worker = worker ?? f.worker
        let reply = try await queue.tick(worker, runs: [])
        _ = try await queue.push(reply.schedules, as: worker)
    }

    func record(_ name: String) async throws -> ScheduleRecord {
        try #require(try await queue.schedules().first { $0.name == name })
    }

    func finish(_ id: String) async throws {
        let claim = try #require(try await c.claim())
        #expect(claim.run.id == id)
        try await queue.settle(claim.run, as: QueueFixture.done, worker: f.worker)
    }
}
