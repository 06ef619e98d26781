import Foundation
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// What a member of a batch costs Redis. The environment variable `HAUL_BATCH_MEMBERS` sets the number of members.
@Suite("Costs of batches", .serialized) struct BatchCostTests {
    private struct Cost {
        var commands: Double
        var microseconds: Double
    }

    /// Commands that functions send, and the time of the functions in Redis, for each job from its claim to its end.
    private func cost(_ members: String, together: Int) async throws -> Cost {
        let f = try await QueueFixture()
        let jobs = ProcessInfo.processInfo.environment["HAUL_BATCH_MEMBERS"].flatMap { Int($0) } ?? 2000
        for page in stride(from: 0, to: jobs, by: 500) {
            let elements = (page..<min(page + 500, jobs)).map { #"{"url":"http://h/\#($0)"\#(members)}"# }
            try await f.redis.send(Command(arguments: ["LPUSH", f.queue.keys.jobs] + elements))
        }
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        var running: [Run] = []
        for _ in 0..<together { running.append(try #require(try await f.claim()).run) }
        while !running.isEmpty {
            let reply = try await f.queue.settle(
                running.map { RunEnd($0, QueueFixture.done, isFresh: true) }, worker: f.worker,
                next: running.map { _ in Token.make() })
            running = reply.next.compactMap { if case .job(let claim) = $0 { claim.run } else { nil } }
        }
        let text = try #require(try await f.redis.send(Command("INFO", "commandstats")).string)
        var cost = Cost(commands: 0, microseconds: 0)
        for line in text.split(separator: "\r\n") where line.hasPrefix("cmdstat_") {
            let facts = line.split(separator: ":")[1].split(separator: ",").map { $0.split(separator: "=") }
            let values = Dictionary(uniqueKeysWithValues: facts.map { (String($0[0]), Double($0[1]) ?? 0) })
            let isCall = line.hasPrefix("cmdstat_fcall:")
            if isCall {
                cost.microseconds += values["usec"]! / Double(jobs)
            } else {
                cost.commands += values["calls"]! / Double(jobs)
            }
        }
        if !members.isEmpty {
            #expect(try await f.queue.batch("b")?.counts[.completed] == jobs)
            let memory =
                try await f.redis.send(Command("MEMORY", "USAGE", f.queue.keys.members("b"), "SAMPLES", 0)).int ?? 0
            print("a batch of \(jobs): \(memory / jobs) bytes for each member")
        }
        return cost
    }

    @Test("a member costs a few commands more than a job without a batch", arguments: [1, 16]) func member(
        together: Int
    ) async throws {
        let alone = try await cost("", together: together)
        let member = try await cost(#","batch":{"name":"b","size":100000}"#, together: together)
        print("\(together) together: a job \(alone), a member \(member)")
        #expect(member.commands - alone.commands < (together == 1 ? 20 : 12))
    }
}
