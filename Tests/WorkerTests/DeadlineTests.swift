import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Deadlines of running jobs")
struct DeadlineTests {
    private static let bytes = FileBytes(seed: 71, count: 300_000)

    enum Hold: String, CaseIterable { case origin, host, rate }

    @Test(
        "a job that was claimed before its deadline ends at the deadline, whatever it waits for",
        arguments: Hold.allCases)
    func running(_ hold: Hold) async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if hold != .rate { reply.hold = (1000, latch) }
            return reply
        }
        try await fleet.withWorker("w", { $0.connectionsPerHost = 1 }) {
            if hold == .host {
                try await fleet.push(#"{"url":"\#(origin.url("/first"))","id":"first"}"#)
                try await eventually { origin.requests.count == 1 }
            }
            let limit = hold == .rate ? #","limit_rate":1024"# : ""
            try await fleet.push(#"{"url":"\#(origin.url("/late"))","id":"late","deadline":1\#(limit)}"#)
            try await fleet.wait("late", for: .running)
            try await fleet.wait("late", for: .failed)
            #expect(try await fleet.queue.job("late")?["error"] == "deadline")
            #expect(try await fleet.redisHas("deadlines", "late") == false)
            latch.open()
            if hold == .host { try await fleet.wait("first", for: .completed) }
        }
    }
}

extension Fleet {
    fileprivate func redisHas(_ index: String, _ id: String) async throws -> Bool {
        try await queue.redis.send(Command("ZSCORE", queue.keys.prefix + index, id)).string != nil
    }
}
