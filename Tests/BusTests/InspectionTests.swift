import Bus
import Contract
import Redis
import TestSupport
import Testing

@Suite struct InspectionTests {
    /// A queue with a job in every state.
    private func fixture() async throws -> (QueueFixture, Claim) {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/s","id":"scheduled","delay":1000,"deadline":5000}"#)
        for id in ["completed", "failed", "cancelled", "paused", "running", "queued"] {
            try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#)
        }
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.settle(
            try #require(try await f.claim()), .failed(Failure(.io, "m"), retryable: true, received: 0))
        for (id, request) in [("cancelled", Request.cancelled), ("paused", .paused)] {
            let claim = try #require(try await f.claim())
            #expect(claim.run.id == id)
            try await f.queue.request(request, of: [id])
            try await f.tick([claim])
            try await f.settle(claim, request == .paused ? .paused : .cancelled)
        }
        let running = try #require(try await f.claim())
        try await f.settle(try #require(try await f.claim()), .released(why: "test"))
        let again = try #require(try await f.claim())
        try await f.settle(again, .released(why: "test"))
        try await f.queue.request(.paused, of: ["later"])
        try await f.tick([running])
        return (f, running)
    }

    private func problems(_ f: QueueFixture, repairing: Bool = false) async throws -> [String] {
        try await Inspection(f.queue).run(repairing: repairing).map { "\($0.subject): \($0.problem)" }
    }

    @Test("a queue with a job in every state is in order") func order() async throws {
        let (f, _) = try await fixture()
        #expect(try await problems(f) == [])
    }

    @Test(
        "what is broken is found, repaired where that can be, and in order then",
        arguments: [
            ("queued", "DEL K:jobs"), ("running", "ZREM K:leases running"), ("running", "HDEL K:worker:w1 T"),
            ("paused", "ZREM K:paused paused"), ("paused", "ZADD K:scheduled 1 paused"),
            ("completed", "PERSIST K:job:completed"), ("paused", "PEXPIRE K:job:paused 100000"),
            ("failed", "PERSIST K:spec:failed"), ("ghost", "HSET K:offsets:ghost 0 5"),
            ("ghost", "HSET K:spec:ghost spec x"), ("ghost", "ZADD K:paused 1 ghost"),
            ("ghost", "ZADD K:leases 99999999999999 ghost"), ("scheduled", "ZREM K:deadlines scheduled"),
            ("later", "PERSIST K:job:later"),
        ]) func repair(_ subject: String, _ command: String) async throws
    {
        let (f, running) = try await fixture()
        let words = command.replacing("K:", with: f.queue.keys.prefix).replacing(" T", with: " \(running.run.token)")
        try await f.redis.send(Command(arguments: words.split(separator: " ").map(String.init)))
        let found = try await problems(f)
        #expect(found.count >= 1 && found.allSatisfy { $0.hasPrefix("\(subject): ") }, "\(found)")
        #expect(try await Inspection(f.queue).run(repairing: true).allSatisfy(\.isRepaired))
        if subject == "running" {
            // Its lease is over now: the next tick of another worker puts it back in line.
            try await eventually {
                _ = try await f.queue.tick(WorkerIdentity(name: "w2", store: "s"), fields: [], runs: [])
                return try await f.state("running") == .queued
            }
        }
        #expect(try await problems(f) == [])
    }

    @Test(
        "what cannot be repaired is said",
        arguments: [
            "SET K:strange 1", "HSET K:settings max_running many", "HSET K:settings pause 1",
            "HSET K:job:x url http://h", "SET K:job:y 1",
            "HDEL K:spec:paused spec", "HSET K:job:paused state lost", "LPUSH K:held:nobody x", "SET K:held:nobody x",
        ]) func unrepairable(_ command: String) async throws
    {
        let (f, _) = try await fixture()
        let words = command.replacing("K:", with: f.queue.keys.prefix).split(separator: " ").map(String.init)
        try await f.redis.send(Command(arguments: words))
        let findings = try await Inspection(f.queue).run(repairing: true)
        #expect(findings.contains { !$0.isRepaired })
    }

    @Test("a key of the wrong type is named") func types() async throws {
        for (key, command) in [("want", "SET"), ("jobs", "SET"), ("leases", "SET"), ("settings", "SET")] {
            let (f, _) = try await fixture()
            let name = f.queue.keys.prefix + key
            try await f.redis.send(Command(command, name, "1"))
            #expect(try await problems(f).contains { $0.hasPrefix("\(name): it is a string") })
        }
    }
}
